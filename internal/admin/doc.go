// Package admin serves health, metrics and status over HTTP; writes the log. It is independent of
// the pipeline. Events of the pipeline call the methods of Health and Metrics.
//
// Nothing here contains item data. Labels of metrics are names from the configuration and members
// of small closed sets, never a shard id or a key. So the number of series stays bounded, even in a
// process that runs for months.
package admin
