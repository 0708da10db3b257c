package recovery

import (
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// elapsedIn is the agreed time in a snapshot; nil where there is none.
func elapsedIn(v snapshot) *record.Elapsed {
	kv, ok := v.KV(record.ElapsedKey)
	if !ok {
		return nil
	}
	e, err := store.Decode[record.Elapsed](kv)
	if err != nil {
		return nil
	}
	return e
}
