package checkpoint

// Busiest is the worker from which me should take a shard over, so that all come to hold about shards ÷ workers: of those in from, the one
// that holds most, if that is at least two more than me holds. It is "" if there is none. Held counts shards by worker.
//
// A difference of one is left alone, and so each shard that is taken over brings the numbers nearer to each other: two workers never take the
// same shard from each other again and again. Who holds nothing needs no row to be seen by: it comes and takes.
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
