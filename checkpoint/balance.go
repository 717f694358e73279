package checkpoint

// Busiest returns the worker from which the worker `me` should take over a shard, so that all
// workers hold about the same number. It chooses among the workers in `from`: the one that holds
// most shards, if it holds at least two more than `me`. Otherwise it returns "". The map `held`
// counts shards by worker.
//
// A difference of one shard is left alone. So each takeover brings the numbers closer, and two
// workers never take the same shard from each other repeatedly. The map `held` need not include a
// worker without shards, because no shard is taken from it.
func Busiest(held map[string]int, me string, from []string) string {
	busiest := ""
	for _, worker := range from {
		if worker == me || held[worker] < held[me]+2 {
			continue
		}
		if n := held[worker] - held[busiest]; busiest == "" || n > 0 || n == 0 && worker < busiest {
			busiest = worker
		}
	}
	return busiest
}
