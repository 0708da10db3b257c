package history

import (
	"errors"
	"strings"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
)

// older has a syncer begin again as one of an older version, which reads no parts: it is sent the whole definition.
func (t *trial) older() error {
	long := "first\n" + strings.Repeat("# so long that it is a part\n", 100)
	s := t.service(long, nil)
	_, err := t.api.CreateService(t.ctx, s, client.CreateOptions{Wait: trialLate})
	whole := func() bool {
		d, err := t.player.desired(t.ctx, t.cluster.ID, t.name)
		return err == nil && record.IsWholeSpec(d.Spec)
	}
	if whole() {
		err = errors.Join(err, errors.New("it has no parts"))
	}
	t.cluster.Kill()
	t.cluster.Start(func(c *syncer.Config) { c.Forms = record.Forms{Reads: 1, Writes: 1} })
	err = errors.Join(err, t.await("it is sent as a whole", whole), t.changeDirectly(), t.is(long))
	t.cluster.Kill()
	t.cluster.Start()
	return err
}
