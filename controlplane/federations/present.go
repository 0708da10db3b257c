package federations

import (
	"github.com/oscarfed/oscarfed/controlplane/view"
)

// federationByUID presents one federation as the state knows it.
func (c *Controller) federationByUID(uid string) (view.Shown, bool) {
	var out view.Shown
	found := false
	c.state.Read(func(v *view.View) {
		if f, ok := v.Federations[uid]; ok {
			found, out = true, v.Show(f.Rec, f.Rev)
		}
	})
	return out, found
}
