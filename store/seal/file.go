package seal

import (
	"bytes"
	"errors"
	"io"

	"filippo.io/age"
)

// SealFile encrypts a file to people's age recipients, as `age -d` opens it.
func SealFile(plain []byte, recipients []string) ([]byte, error) {
	to, err := parse(recipients)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to...)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(plain)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// OpenFile decrypts what SealFile made, up to a number of bytes.
func (i *Identity) OpenFile(sealed []byte, most int64) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(sealed), i.key)
	if err != nil {
		return nil, ErrUndecryptable
	}
	plain, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return nil, ErrUndecryptable
	case int64(len(plain)) > most:
		return nil, ErrTooLarge
	}
	return plain, nil
}
