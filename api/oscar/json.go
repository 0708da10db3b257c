package oscar

// Every type reads and writes its unknown fields; see decoder and encoder.

// MarshalJSON implements json.Marshaler.
func (v Synchronous) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *Synchronous) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v Expose) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *Expose) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v Environment) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *Environment) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v IO) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *IO) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v Volume) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *Volume) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v VolumeStatus) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *VolumeStatus) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v Kserve) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *Kserve) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v KserveInference) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *KserveInference) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v Federation) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *Federation) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (m Member) MarshalJSON() ([]byte, error) { return encode(m) }

// UnmarshalJSON implements json.Unmarshaler.
func (m *Member) UnmarshalJSON(data []byte) error { return decode(data, m) }

// MarshalJSON implements json.Marshaler.
func (p StorageProviders) MarshalJSON() ([]byte, error) { return encode(p) }

// UnmarshalJSON implements json.Unmarshaler.
func (p *StorageProviders) UnmarshalJSON(data []byte) error { return decode(data, p) }

// MarshalJSON implements json.Marshaler.
func (v S3Provider) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *S3Provider) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v MinIOProvider) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *MinIOProvider) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v OnedataProvider) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *OnedataProvider) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v WebDAVProvider) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *WebDAVProvider) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v RucioProvider) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *RucioProvider) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v ClusterCredential) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *ClusterCredential) UnmarshalJSON(data []byte) error { return decode(data, v) }

// MarshalJSON implements json.Marshaler.
func (v Ports) MarshalJSON() ([]byte, error) { return encode(v) }

// UnmarshalJSON implements json.Unmarshaler.
func (v *Ports) UnmarshalJSON(data []byte) error { return decode(data, v) }
