package checkpoint

import (
	"math"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/jsontext"
)

// ReadShard decodes what the row of a shard holds, as Shards does: for those who look into a store beside the ledger.
func ReadShard(text string) (s Shard, err error) {
	if s.read(text) && s.Format == Format {
		return s, nil
	}
	s = Shard{}
	return s, decode(Row{Data: []byte(text)}, &s)
}

// read decodes the text of a shard's row as this version writes it, many times faster than encoding/json: shards' rows are the many and
// those that change, and every worker reads each change of each. Of a text of any other form it says false, and encoding/json has to
// tell what it is.
func (s *Shard) read(text string) bool {
	r := rowText{jsontext.New(text), true}
	r.Object()
	for {
		name, ok := r.Member()
		if !ok {
			break
		}
		switch name {
		case "format":
			s.Format = int(r.upTo(math.MaxInt32))
		case "by":
			s.By = r.Text()
		case "n":
			s.N = r.Uint()
		case "source":
			s.Source = r.Text()
		case "stream_arn":
			s.StreamARN = r.Text()
		case "label":
			s.Label = r.Text()
		case "id":
			s.ID = r.Text()
		case "parent":
			s.Parent = r.Text()
		case "state":
			s.State = State(r.Text())
		case "hop":
			s.Hop = uint32(r.upTo(math.MaxUint32))
		case "generation":
			s.Generation = uint32(r.upTo(math.MaxUint32))
		case "epoch":
			s.Epoch = r.Uint()
		case "owner":
			s.Owner = r.Text()
		case "position":
			s.Position = r.number()
		case "applied":
			s.Applied = r.Uint()
		case "rate":
			s.Rate = r.Float()
		case "caught_up":
			s.CaughtUp = r.Bool()
		case "dropping":
			s.Dropping = r.Bool()
		case "loss":
			s.Loss = Loss(r.Text())
		case "reason":
			s.Reason = r.Text()
		case "holder":
			r.about(&s.Holder)
		case "trouble":
			r.trouble(&s.Trouble)
		default:
			if !s.readTime(&r, name) {
				return false
			}
		}
		if !r.known {
			return false
		}
	}
	r.End()
	return r.Err() == nil
}

// readTime reads a time by its name; false if there is none of that name.
func (s *Shard) readTime(r *rowText, name string) bool {
	switch name {
	case "event_time":
		s.EventTime = r.time()
	case "cell_time":
		s.CellTime = r.time()
	case "covered_to":
		s.CoveredTo = r.time()
	case "first_read":
		s.FirstRead = r.time()
	case "read_at":
		s.ReadAt = r.time()
	case "done_at":
		s.DoneAt = r.time()
	case "written_at":
		s.WrittenAt = r.time()
	default:
		return false
	}
	return true
}

// rowText is the text of a row. Known turns false at anything that this version would not write.
type rowText struct {
	jsontext.Reader
	known bool
}

func (r *rowText) upTo(most uint64) uint64 {
	n := r.Uint()
	if n > most {
		r.known = false
	}
	return n
}

// time reads a time in UTC.
func (r *rowText) time() (t time.Time) {
	text := r.Text()
	if t.UnmarshalText([]byte(text)) != nil || !strings.HasSuffix(text, "Z") {
		r.known = false
	}
	return t
}

func (r *rowText) number() cdc.SequenceNumber {
	n, err := cdc.ParseSequenceNumber(r.Text())
	if err != nil {
		r.known = false
	}
	return n
}

func (r *rowText) about(a *About) {
	r.Object()
	for {
		name, ok := r.Member()
		if !ok {
			return
		}
		switch name {
		case "host":
			a.Host = r.Text()
		case "version":
			a.Version = r.Text()
		default:
			r.known = false
			return
		}
	}
}

func (r *rowText) trouble(t *Trouble) {
	r.Object()
	for {
		name, ok := r.Member()
		if !ok {
			return
		}
		switch name {
		case "step":
			t.Step = r.Text()
		case "cause":
			t.Cause = r.Text()
		case "since":
			t.Since = r.time()
		case "throttled":
			t.Throttled = r.Bool()
		default:
			r.known = false
			return
		}
	}
}
