package server

import (
	"net/http"

	"github.com/oscarfed/oscarfed/api"
)

// openAPI answers GET /openapi.yaml: the description of this API (OpenAPI 3.0, YAML).
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	writeBody(w, http.StatusOK, "application/yaml", []byte(api.OpenAPI))
}
