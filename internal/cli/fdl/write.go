package fdl

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
	jsonyaml "sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// Write writes services as an FDL that can be edited and applied: without what the clusters and
// the control plane fill in. That a service has no secrets or no members is said: what is left
// out stays as it is.
func Write(w io.Writer, services []*oscar.Service) error {
	list := []map[string]*yaml.Node{}
	for _, s := range services {
		s = s.Clone()
		cluster := s.ClusterID
		s.ClusterID, s.Token, s.Owner, s.Namespace = "", "", "", ""
		s.DropState()
		if s.Environment.Secrets == nil {
			s.Environment.Secrets = map[string]string{}
		}
		if s.Federation == nil {
			s.Federation = &oscar.Federation{Members: []oscar.Member{}}
		}
		definition, err := definitionOf(s)
		if err != nil {
			return err
		}
		if cluster == "" {
			cluster = oscar.DefaultClusterKey
		}
		list = append(list, map[string]*yaml.Node{cluster: definition})
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	return errors.Join(enc.Encode(map[string]any{"functions": map[string]any{"oscar": list}}), enc.Close())
}

// definitionOf is a service as YAML, with its script at the end. It takes the script from the service.
func definitionOf(s *oscar.Service) (*yaml.Node, error) {
	text := s.Script
	s.Script = ""
	data, err := jsonyaml.Marshal(s)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	definition := doc.Content[0]
	quoteIndented(definition)
	if text == "" {
		return definition, nil
	}
	script, err := scriptOf(text)
	definition.Content = append(definition.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "script"}, script)
	return definition, err
}

// scriptOf is the text of a script as a block, which is never the path of a file: the script may be
// somebody else's, who must not choose a file of the person who applies the FDL.
func scriptOf(text string) (*yaml.Node, error) {
	script := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Style: yaml.LiteralStyle}
	quoteIndented(script)
	written, err := yaml.Marshal(script)
	if !bytes.HasPrefix(written, []byte("|")) && !strings.Contains(text, "\n") {
		script.Value += "\n" // no block can hold it; in quotes a line break says that it is a text
	}
	return script, err
}

// quoteIndented puts blocks that begin with white space into quotes: the encoder writes some of them
// in a way that cannot be read.
func quoteIndented(n *yaml.Node) {
	if n.Style == yaml.LiteralStyle && strings.TrimLeftFunc(n.Value, unicode.IsSpace) != n.Value {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		quoteIndented(child)
	}
}
