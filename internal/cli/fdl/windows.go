package fdl

import "strings"

// WindowsScripts names the services whose scripts have the ends of lines of Windows. They are sent as
// they are, and fail in the container, where a shell takes the carriage return for a part of the line.
func WindowsScripts(services []Service) (out []string) {
	for _, s := range services {
		if strings.Contains(s.Script, "\r\n") {
			out = append(out, s.At()+": the lines of its script end as on Windows (CR LF), which a shell in the container does not understand; convert it, with dos2unix for example")
		}
	}
	return out
}
