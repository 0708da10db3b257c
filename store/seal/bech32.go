package seal

import "strings"

// bech32 are the digits of age's keys as text, five bits each (BIP 173).
const bech32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

// checksum is the number of digits at the end that are one.
const checksum = 6

// rawKey are the bytes of a key as text, private or public. The text must be one that
// age has parsed: its checksum is not looked at again.
func rawKey(text string) []byte {
	text = strings.ToLower(text)
	digits := text[strings.LastIndexByte(text, '1')+1:]
	var out []byte
	var bits, n uint
	for _, digit := range digits[:max(len(digits)-checksum, 0)] {
		bits, n = bits<<5|uint(strings.IndexRune(bech32, digit))&31, n+5
		if n >= 8 {
			n -= 8
			out = append(out, byte(bits>>n)) //nolint:gosec // its low eight bits are meant
		}
	}
	return out
}
