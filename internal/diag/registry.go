package diag

// Entry holds the registered texts and exit status of a code.
type Entry struct {
	Code    string
	Title   string // what failed in general; lower case, no full stop
	Explain string // when the error occurs and why it matters; Markdown
	Fix     string // the general fix, for errors without their own
	Exit    int    // exit status
}

// Entries returns all registered codes in ascending order.
func Entries() []Entry { return append([]Entry(nil), registry...) }

// Lookup returns the entry of a code.
func Lookup(code string) (Entry, bool) {
	for _, entry := range registry {
		if entry.Code == code {
			return entry, true
		}
	}
	return Entry{}, false
}

// registered returns the entry of a code. For an unregistered code it returns the entry of an
// internal error, so that the error can still be shown.
func registered(code string) Entry {
	if entry, ok := Lookup(code); ok {
		return entry
	}
	entry, _ := Lookup(Internal)
	return entry
}
