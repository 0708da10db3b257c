package services

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// Sizes of the drawing, in its own units.
const (
	nodeRadius  = 9
	labelWidth  = 260 // room for a name beside the circle of members
	labelHeight = 40
	arcOfNode   = 34 // of the circle of members, for each
	leastRadius = 120
)

const graphStyle = `text{font:12px system-ui,sans-serif;fill:#1c2230;paint-order:stroke;stroke:#fff;stroke-width:4px}
.ground{fill:#fff}.phase{fill:#5b6270}.edge{stroke:#9aa1ad;fill:none}.head{fill:#9aa1ad}
.node{fill:#5b6270}.ready{fill:#197a44}.failed,.unreachable,.refused,.wedged{fill:#b3261e}
.drifted,.held,.pending,.applying{fill:#8a5a00}.coordinator{stroke:#2350c4;stroke-width:2;fill:none}
@media(prefers-color-scheme:dark){text{fill:#e8eaf0;stroke:#14181f}.ground{fill:#14181f}.coordinator{stroke:#8ab0ff}.phase{fill:#a9b0bd}.ready{fill:#4cc38a}.failed,.unreachable,.refused,.wedged{fill:#ff8a80}}`

type point struct{ x, y float64 }

// svg draws the graph: the members on a circle; the coordinator in its middle when it alone lists
// others. Two members that list each other are one line without a head.
func svg(f *v1.Federation) string {
	at, radius := placed(f)
	width, height := 2*(radius+labelWidth), 2*(radius+labelHeight)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="%.0f %.0f %.0f %.0f" width="%.0f" height="%.0f" role="img">`+"\n",
		-width/2, -height/2, width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n", escaped("Federation "+f.GroupID), graphStyle)
	fmt.Fprintf(&b, `<rect class="ground" x="%.0f" y="%.0f" width="%.0f" height="%.0f"/>`+"\n", -width/2, -height/2, width, height)
	b.WriteString(`<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="head" d="M0 0 8 4 0 8z"/></marker></defs>` + "\n")
	nodes := nodesOf(f)
	listed := make(map[[2]string]bool, len(f.Edges))
	for _, e := range f.Edges {
		listed[e] = true
	}
	for _, e := range f.Edges {
		from, to := nodes[e[0]], nodes[e[1]]
		mutual := listed[[2]string{e[1], e[0]}]
		if mutual && from > to {
			continue
		}
		head := ` marker-end="url(#head)"`
		if mutual {
			head = ""
		}
		p, q := towards(at[from], at[to]), towards(at[to], at[from])
		fmt.Fprintf(&b, `<path class="edge" d="M%.1f %.1f %.1f %.1f"%s/>`+"\n", p.x, p.y, q.x, q.y, head)
	}
	for i, r := range f.Replicas {
		drawMember(&b, r, at[i], isCoordinator(f, r))
	}
	return b.String() + "</svg>\n"
}

// placed says where each member is, and the radius of the circle.
func placed(f *v1.Federation) ([]point, float64) {
	middle := -1
	if i := slices.IndexFunc(f.Replicas, func(r v1.Replica) bool { return isCoordinator(f, r) }); i >= 0 && len(f.Replicas) > 2 &&
		!slices.ContainsFunc(f.Edges, func(e [2]string) bool { return e[0] != address(f.Replicas[i]) }) {
		middle = i
	}
	around := len(f.Replicas)
	if middle >= 0 {
		around--
	}
	radius := max(leastRadius, float64(around)*arcOfNode/(2*math.Pi))
	at := make([]point, len(f.Replicas))
	next := 0
	for i := range f.Replicas {
		if i == middle {
			continue
		}
		sin, cos := math.Sincos(2*math.Pi*float64(next)/float64(around) - math.Pi/2)
		at[i] = point{radius * cos, radius * sin}
		next++
	}
	return at, radius
}

// towards is where a line from p to q leaves the node at p.
func towards(p, q point) point {
	length := math.Hypot(q.x-p.x, q.y-p.y)
	if length == 0 {
		return p
	}
	const gap = nodeRadius + 4
	return point{p.x + (q.x-p.x)/length*gap, p.y + (q.y-p.y)/length*gap}
}

// drawMember draws a member with its name beside it, away from the middle.
func drawMember(b *strings.Builder, r v1.Replica, at point, coordinator bool) {
	text := memberText(r)
	phase := ""
	if len(text) > 1 {
		phase = text[1]
	}
	fmt.Fprintf(b, `<circle class="node %s" cx="%.1f" cy="%.1f" r="%d"/>`+"\n", escaped(phase), at.x, at.y, nodeRadius)
	if coordinator {
		fmt.Fprintf(b, `<circle class="coordinator" cx="%.1f" cy="%.1f" r="%d"/>`+"\n", at.x, at.y, nodeRadius+3)
	}
	anchor, x, y := "middle", at.x, at.y+nodeRadius+16
	const aside = 20 // nearer to the vertical the name is above or below
	switch {
	case at.x > aside:
		anchor, x, y = "start", at.x+nodeRadius+7, at.y+4
	case at.x < -aside:
		anchor, x, y = "end", at.x-nodeRadius-7, at.y+4
	case at.y < 0:
		y = at.y - nodeRadius - 8
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s <tspan class="phase">%s</tspan></text>`+"\n", x, y, anchor, escaped(text[0]), escaped(phase))
}

// escaped is text for XML, without what a terminal would obey.
func escaped(text string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(output.Printable(text))); err != nil {
		return ""
	}
	return b.String()
}
