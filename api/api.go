package api

import _ "embed"

// OpenAPI is the description of the HTTP API (OpenAPI 3.0, YAML), as GET /openapi.yaml serves it.
//
//go:embed openapi.yaml
var OpenAPI string
