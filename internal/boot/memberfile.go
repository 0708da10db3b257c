package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
)

// memberFile is etcd's configuration file that all members have in common.
type memberFile struct {
	settings map[string]any
	// peers are the peer URLs of all members, by name.
	peers map[string]string
}

// Names in a configuration file of etcd.
const (
	dataDirKey        = "data-dir"
	clusterKey        = "initial-cluster"
	clusterStateKey   = "initial-cluster-state"
	peerSecurityKey   = "peer-transport-security"
	clientSecurityKey = "client-transport-security"
	trustedCAKey      = "trusted-ca-file"
)

// restoredMark is a file in the data directory of a member that was made from a backup, and that never ran.
const restoredMark = "restored"

// memberData says what a member has in its data directory.
type memberData int

const (
	// noData: it never ran, or lost its data.
	noData memberData = iota
	// restoredData was made from a backup. The member is the only one of its cluster.
	restoredData
	// ownData is of a member that ran.
	ownData
)

// readMemberFile reads the configuration file for one of its members.
func readMemberFile(path, name string) (memberFile, error) {
	data, err := readLimited(path, maxConfigFile)
	if err != nil {
		return memberFile{}, fmt.Errorf("etcd's configuration: %w", err)
	}
	f := memberFile{settings: map[string]any{}, peers: map[string]string{}}
	if err := yaml.Unmarshal(data, &f.settings); err != nil {
		return memberFile{}, fmt.Errorf("etcd's configuration: %w", err)
	}
	for one := range strings.SplitSeq(f.text(clusterKey), ",") {
		if name, url, ok := strings.Cut(one, "="); ok {
			f.peers[name] = url
		}
	}
	if f.peers[name] == "" || f.text(dataDirKey) == "" {
		return memberFile{}, fmt.Errorf("%s: %s does not name the member %q, or there is no %s", path, clusterKey, name, dataDirKey)
	}
	return f, nil
}

// text is one setting.
func (f memberFile) text(key string) string { return setting(f.settings, key) }

func setting(of map[string]any, key string) string {
	s, _ := of[key].(string)
	return s
}

// data says with what the member would start.
func (f memberFile) data() (memberData, error) {
	dir := f.text(dataDirKey)
	wal, err := os.ReadDir(filepath.Join(dir, "member", "wal"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return noData, err
	}
	if len(wal) == 0 {
		return noData, nil
	}
	switch _, err := os.Stat(filepath.Join(dir, restoredMark)); {
	case err == nil:
		return restoredData, nil
	case errors.Is(err, fs.ErrNotExist):
		return ownData, nil
	default:
		return noData, err
	}
}

// own makes restored data the member's own: it runs from now on.
func (f memberFile) own() error {
	dir := f.text(dataDirKey)
	if err := os.Remove(filepath.Join(dir, restoredMark)); err != nil {
		return err
	}
	return atomicfile.SyncDir(dir)
}
