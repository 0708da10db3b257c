package command

import (
	"cmp"
	"context"
	"os"
	osexec "os/exec"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/settings"
)

// InEditor opens a file with a text in the editor of the user, as git and kubectl do: $VISUAL, $EDITOR or
// vi, which may have arguments. When it has ended, what was saved is returned: limit bytes at most.
func (a *App) InEditor(ctx context.Context, path string, text []byte, limit int64) ([]byte, error) {
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	// The shell splits the editor's arguments; the path is one of its own.
	cmd := osexec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", path) //nolint:gosec // it is the user's own editor
	cmd.Stdin, cmd.Stdout, cmd.Stderr = RawInput(a.Stdin), Raw(a.Stdout), a.Stderr
	defer lendTerminal(ctx)() // Ctrl-C is a key of many editors
	if err := cmd.Run(); err != nil {
		return nil, exit.Errorf(exit.Failed, "the editor %q: %w; $EDITOR names another one", editor, err)
	}
	return settings.ReadLimited(path, limit)
}
