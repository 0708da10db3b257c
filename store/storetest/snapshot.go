package storetest

import (
	"context"
	"errors"
	"os"

	"github.com/oscarfed/oscarfed/store"
)

// Snapshot writes what a store's etcd holds to a new file.
func Snapshot(ctx context.Context, st *store.Store, path string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = st.Backup(ctx, f)
	return err
}
