package cdc

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	smithytime "github.com/aws/smithy-go/time"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Answers of GetRecords are most of the data that a worker reads. This file decodes their bodies in
// one pass, directly into Changes. That takes a tenth of the time that the client's decoder and the
// conversion of its types would take. The client still does the rest of the call.
//
// This decoder accepts only well-formed answers, except that it does not look into old images that
// nobody needs. All other answers are left to the client's
// decoder, and its result counts. So the client reports errors, and FuzzDecodePage checks that both
// decoders agree on every text.

// decodedPage travels in the context of a call, from Read to strictProtocol and back.
type decodedPage struct {
	Page
	newOnly bool // old images are not decoded
	done    bool
	text    string // set if the text could not be decoded here
}

type decodedPageKey struct{}

// decode reads the body of a good answer. If the body cannot be decoded here, `decode` restores it
// for the client.
func (p *decodedPage) decode(r *smithyhttp.Response) (done bool) {
	text, err := BodyText(r)
	if err == nil {
		if p.Page, p.done = decodePage(text, p.newOnly); !p.done {
			p.text = text
		}
	}
	return p.done
}

// culprit returns the sequence number of the first record that cannot be decoded here. It is used
// only for an answer that the client cannot decode. It returns false if the fault is not in a
// record, or if the record has no number.
func (p *decodedPage) culprit() (sequence string, found bool) {
	s := attribute.NewScanner(p.text)
	_ = s.Object(func(name string) bool {
		if name != "Records" {
			return s.Skip()
		}
		return s.List(func() bool {
			begin := s.Offset()
			if !s.Skip() {
				return false
			}
			record := p.text[begin:s.Offset()]
			if (&pageDecoder{Scanner: attribute.NewScanner(record), newOnly: p.newOnly}).record(new(Change)) {
				return true
			}
			sequence = numberIn(record)
			return false
		})
	})
	return sequence, sequence != ""
}

// numberIn returns the sequence number in the text of a record, regardless of the record's other
// content. It returns "" if there is no number.
func numberIn(record string) (sequence string) {
	s := attribute.NewScanner(record)
	_ = s.Object(func(name string) bool {
		if name != "dynamodb" {
			return s.Skip()
		}
		return s.Object(func(name string) bool {
			if name != "SequenceNumber" {
				return s.Skip()
			}
			text, ok := s.String()
			if number, err := ParseSequenceNumber(text); ok && err == nil {
				sequence = number.String()
			}
			return ok
		})
	})
	return sequence
}

// decodingOf returns the page into which a call's answer is decoded. It returns nil if the call
// does not come from Read.
func decodingOf(ctx context.Context) *decodedPage {
	p, _ := ctx.Value(decodedPageKey{}).(*decodedPage)
	return p
}

// BodyText reads the body of an answer, and replaces it with a reader that returns the same text
// and error again.
func BodyText(r *smithyhttp.Response) (string, error) {
	const most = 32 << 20 // the largest Content-Length for which memory is reserved
	var text strings.Builder
	length := min(max(r.ContentLength, 0), most)
	text.Grow(int(length))
	buffer := make([]byte, min(max(length, 512), 32<<10))
	_, err := io.CopyBuffer(&text, struct{ io.Reader }{r.Body}, buffer)
	r.Body = readAgain{io.MultiReader(strings.NewReader(text.String()), failing{err}), r.Body}
	return text.String(), err
}

type readAgain struct {
	io.Reader
	io.Closer
}

// failing is a reader that returns only an error, which may be io.EOF.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// once reports whether a name occurs for the first time. The bits of seen stand for the names that
// have occurred.
func once(seen *uint, bit uint) bool {
	is := *seen&(1<<bit) == 0
	*seen |= 1 << bit
	return is
}

// pageDecoder decodes the text of one answer.
type pageDecoder struct {
	*attribute.Scanner
	newOnly bool // old images are not decoded

	// The time of the previous record. Most records of a page have the time of their predecessor.
	timeText string
	time     time.Time
}

// decodePage decodes the text of an answer. It returns false if the text contains anything that the
// service is not known to write.
func decodePage(text string, newOnly bool) (page Page, ok bool) {
	s := &pageDecoder{Scanner: attribute.NewScanner(text), newOnly: newOnly}
	var seen uint
	var next string
	ok = s.Object(func(name string) (ok bool) {
		switch name {
		case "NextShardIterator":
			next, ok = s.String()
			return ok && once(&seen, 0)
		case "Records":
			page.Changes, ok = s.records(len(text))
			return ok && once(&seen, 1)
		}
		return s.Skip()
	})
	if !ok || !s.End() || seen == 0 {
		return Page{}, false
	}
	// The iterator and the sequence numbers outlive the page. Without copies they would keep the
	// page's whole text in memory.
	page.Next = Iterator(strings.Clone(next))
	if n := len(page.Changes); n > 0 {
		last := &page.Changes[n-1].Sequence
		last.text = strings.Clone(last.text)
	}
	page.End = page.Next == ""
	return page, true
}

func (s *pageDecoder) records(length int) (changes []Change, ok bool) {
	begin := s.Offset()
	ok = s.List(func() bool {
		if len(changes) == 1 { // the other changes are about as long as the first
			rest := (length - begin) / (s.Offset() - begin)
			changes = append(make([]Change, 0, min(rest+rest/8+2, pageLimit)), changes...)
		}
		changes = append(changes, Change{})
		return s.record(&changes[len(changes)-1])
	})
	return changes, ok
}

func (s *pageDecoder) record(c *Change) bool {
	var seen uint
	var view, userType, principal string
	var old bool
	ok := s.Object(func(name string) (ok bool) {
		switch name {
		case "dynamodb":
			view, old, ok = s.change(c)
			return ok && once(&seen, 0)
		case "eventName":
			event, ok := s.String()
			if c.Event, _ = parseEvent(event); c.Event == 0 {
				return false
			}
			return ok && once(&seen, 1)
		case "userIdentity":
			userType, principal, ok = s.user()
			return ok && once(&seen, 2)
		case "awsRegion", "eventID", "eventSource", "eventVersion":
			_, ok = s.String()
			return ok
		}
		return s.Skip()
	})
	c.Expired = c.Event == Remove && userType == "Service" && principal == "dynamodb.amazonaws.com"
	return ok && seen&3 == 3 && c.check(View(view), old) == nil
}

// change reads the part of a record that describes the item. The result `old` reports whether
// the record has an old image.
func (s *pageDecoder) change(c *Change) (view string, old, ok bool) {
	var seen uint
	ok = s.Object(func(name string) (ok bool) {
		switch name {
		case "NewImage":
			c.New, ok = s.Item()
			return ok && once(&seen, 0)
		case "OldImage":
			old = true
			if s.newOnly {
				ok = s.SkipObject()
			} else {
				c.Old, ok = s.Item()
			}
			return ok && once(&seen, 1)
		case "Keys":
			c.Keys, ok = s.Keys()
			return ok && once(&seen, 2)
		case "SequenceNumber":
			text, ok := s.String()
			var err error
			c.Sequence, err = ParseSequenceNumber(text)
			return ok && err == nil && once(&seen, 3)
		case "ApproximateCreationDateTime":
			c.Time, ok = s.readTime()
			return ok && once(&seen, 4)
		case "StreamViewType":
			view, ok = s.String()
			return ok && once(&seen, 5)
		case "SizeBytes":
			text, ok := s.Number()
			_, err := strconv.ParseInt(text, 10, 64)
			return ok && err == nil
		}
		return s.Skip()
	})
	return view, old, ok
}

// readTime reads a time as the client does, and floors it to the second.
func (s *pageDecoder) readTime() (at time.Time, ok bool) {
	text, ok := s.Number()
	if ok && text != s.timeText {
		if s.time, ok = parseTime(text); ok {
			s.timeText = text
		}
	}
	return s.time, ok
}

func parseTime(text string) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.Time{}, false
	}
	if whole := uint32(seconds); float64(whole) == seconds { // the service's form; other forms take the slow path
		return time.Unix(int64(whole), 0).UTC(), true
	}
	return smithytime.ParseEpochSeconds(seconds).UTC().Truncate(time.Second), true
}

func (s *pageDecoder) user() (kind, principal string, ok bool) {
	var seen uint
	ok = s.Object(func(name string) (ok bool) {
		switch name {
		case "Type":
			kind, ok = s.String()
			return ok && once(&seen, 0)
		case "PrincipalId":
			principal, ok = s.String()
			return ok && once(&seen, 1)
		}
		return s.Skip()
	})
	return kind, principal, ok
}
