package checkpoint

// Busiest returns the worker from which worker me should take over a shard, so that each worker
// holds about shards ÷ workers. It is the worker in from that holds most shards, if it holds at
// least two more than me; "" if there is none. Held counts shards by worker.
//
// A difference of one is left alone, so each takeover brings the numbers closer, and two workers
// never take the same shard from each other repeatedly. A worker without shards needs no row to be
// seen: it takes shards by itself.
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
