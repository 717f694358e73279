// Package plan compares a configuration with both clouds, and creates resources.
package plan
