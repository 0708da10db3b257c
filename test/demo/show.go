package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

func (s *story) heading(text string) {
	s.steps++
	s.step = text
	fmt.Fprintf(s.out, "\n%d. %s\n", s.steps, text)
}

func (s *story) notef(format string, args ...any) {
	fmt.Fprintf(s.out, "   %s\n", fmt.Sprintf(format, args...))
}

// check shows something that holds, or ends the demo.
func (s *story) check(holds bool, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if !holds {
		return fmt.Errorf("not true: %s", text)
	}
	s.checks++
	s.notef("ok: %s", text)
	return nil
}

// cli shows a command, runs it, shows what it printed (progress and failures
// first, then results), and wants its status.
func (s *story) cli(ctx context.Context, status int, args ...string) (answer, error) {
	shown := strings.ReplaceAll(strings.Join(args, " "), s.fed.dir+string(filepath.Separator), "")
	fmt.Fprintf(s.out, "   $ oscarfed %s\n", shown)
	a, err := s.fed.oscarfed(ctx, args...)
	if err != nil {
		return a, err
	}
	for line := range strings.Lines(a.stderr + a.stdout) {
		fmt.Fprintf(s.out, "     %s\n", strings.TrimRight(line, "\n"))
	}
	if a.status != status {
		return a, fmt.Errorf("oscarfed %s ended with status %d, not %d\n%s", shown, a.status, status, s.fed.log())
	}
	s.checks++
	return a, nil
}

// invite says how to look at the federation that keeps running.
func (s *story) invite(dir string) {
	s.heading("it keeps running: Ctrl-C ends it and removes its data")
	s.notef("export OSCARFED_ENDPOINT=%s OSCARFED_USER=%s OSCARFED_PASSWORD_FILE=%s", s.fed.API, s.fed.User, s.fed.passwordFile())
	s.notef("%s describe %s", s.binary, group)
	s.notef("etcdctl --endpoints %s watch --prefix /oscarfed/v1/", s.fed.Etcd)
	for _, n := range s.fed.Clusters {
		s.notef("%s: %s, user %s, password %s", n.ClusterID, n.Endpoint, n.User, n.Password)
	}
	s.notef("all of it is below %s", dir)
}
