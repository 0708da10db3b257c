package seal_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/seal"
)

// What an envelope around a kilobyte costs: to a cluster, to a cluster and to oneself,
// to oneself alone; and to open one.
func BenchmarkSeal(b *testing.B) {
	one, two := generate(b), generate(b)
	sealer := one.Sealer(time.Now)
	payload := bytes.Repeat([]byte("e"), 1<<10)
	for name, envelope := range map[string]func() (string, error){
		"to a cluster": func() (string, error) { return seal.Seal(header, payload, two.Recipient()) },
		"to a cluster and oneself": func() (string, error) {
			return sealer.Seal(header, payload, sealer.Own(), seal.Recipient{Key: two.Recipient()})
		},
		"to oneself": func() (string, error) { return sealer.Seal(header, payload, sealer.Own()) },
		"to oneself and a cluster that it has agreed with": func() (string, error) {
			return sealer.Seal(header, payload, sealer.Own(), seal.Recipient{Key: two.Recipient(), Shared: true})
		},
		"to two clusters": func() (string, error) { return seal.Seal(header, payload, one.Recipient(), two.Recipient()) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := envelope(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
