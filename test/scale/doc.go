// Package scale plays large fleets in virtual time. It measures the requests to the ledger and to
// DynamoDB, and how soon all shards are read again. Its test plays a small fleet. Play the large
// one by hand:
//
//	go test ./test/scale -timeout 0 -args -shards 10000 -workers 200 -lasts 2h -lease 5m -poll 1m -report bench/scale.txt
package scale
