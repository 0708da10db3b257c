package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// maxName is the longest service name, in characters.
const maxName = 39

// Decode reads a service. The error's text is what OSCAR puts after "The service specification is not valid: ".
// Anything after the first JSON value is ignored, as OSCAR does.
func Decode(body []byte) (*Service, error) {
	svc := &Service{}
	if err := JSON(body, svc); err != nil {
		return nil, err
	}
	if err := required(svc); err != nil {
		return nil, err
	}
	return svc, nil
}

// JSON decodes one value from body into v and words a type error as OSCAR's own types would.
func JSON(body []byte, v any) error {
	err := json.NewDecoder(bytes.NewReader(body)).Decode(v)
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errors.New(strings.ReplaceAll(te.Error(), "wire.", "types."))
	}
	return err
}

// required checks what OSCAR's binding tags check: name, image and script are there, the name is short enough.
func required(svc *Service) error {
	var bad []string
	violation := func(field, tag string) {
		bad = append(bad, "Key: 'Service."+field+"' Error:Field validation for '"+field+"' failed on the '"+tag+"' tag")
	}
	switch {
	case svc.Name == "":
		violation("Name", "required")
	case utf8.RuneCountInString(svc.Name) > maxName:
		violation("Name", "max")
	}
	if svc.Image == "" {
		violation("Image", "required")
	}
	if svc.Script == "" {
		violation("Script", "required")
	}
	if bad == nil {
		return nil
	}
	return errors.New(strings.Join(bad, "\n"))
}
