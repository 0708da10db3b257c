package api

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.yaml
var openAPIDocument []byte

// OpenAPI is the description of this API (OpenAPI 3.0, YAML).
func OpenAPI() []byte { return append([]byte(nil), openAPIDocument...) }

// openAPI answers GET /openapi.yaml.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	writeBody(w, http.StatusOK, "application/yaml", openAPIDocument)
}
