package account

import (
	"os"
	"strings"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

func TestWhichIssuer(t *testing.T) {
	one, two := v1.LoginIssuer{Issuer: "https://one.example", ClientID: "cli"}, v1.LoginIssuer{Issuer: "https://two.example", Scopes: []string{"openid"}}
	for _, c := range []struct {
		given v1.LoginIssuer
		named []v1.LoginIssuer
		want  string
	}{
		{v1.LoginIssuer{}, []v1.LoginIssuer{one}, "https://one.example cli"},
		{v1.LoginIssuer{}, []v1.LoginIssuer{one, two}, "names several"},
		{v1.LoginIssuer{Issuer: two.Issuer}, []v1.LoginIssuer{one, two}, "names no client"},
		{v1.LoginIssuer{Issuer: two.Issuer, ClientID: "x"}, []v1.LoginIssuer{one, two}, "https://two.example x"},
		{v1.LoginIssuer{Issuer: "https://three.example"}, []v1.LoginIssuer{one, two}, "does not trust"},
		{v1.LoginIssuer{}, nil, "has no issuer"},
	} {
		got, err := choose(c.given, c.named)
		text := got.Issuer + " " + got.ClientID
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%+v of %d: %s, want %s", c.given, len(c.named), text, c.want)
		}
	}
}

func TestWhichBrowser(t *testing.T) {
	find := func(name string) (string, error) {
		if name == "xdg-open" || name == "lynx" {
			return "/usr/bin/" + name, nil
		}
		return "", os.ErrNotExist
	}
	for _, c := range []struct {
		environment map[string]string
		want        string
	}{
		{map[string]string{}, ""},
		{map[string]string{"DISPLAY": ":0"}, "/usr/bin/xdg-open"},
		{map[string]string{"DISPLAY": ":0", "SSH_CONNECTION": "10.0.0.1"}, ""},
		{map[string]string{"BROWSER": "lynx"}, "/usr/bin/lynx"},
		{map[string]string{"BROWSER": "absent", "WAYLAND_DISPLAY": "w"}, "/usr/bin/xdg-open"},
	} {
		if got := opener(func(key string) string { return c.environment[key] }, find); got != c.want {
			t.Errorf("%v: %q, want %q", c.environment, got, c.want)
		}
	}
}
