// The JSON of the endpoints drivers, releases and manifests.

/** The part of a JSON schema that a field of a form needs. */
export interface FieldSchema {
  type?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
}

/** The schema of a driver's machine configs. */
export interface ConfigSchema {
  properties?: Record<string, FieldSchema>;
  required?: string[];
}

/** A value of a cloud credential. */
export interface CredentialField {
  name: string;
  type: string;
  secret: boolean;
  required: boolean;
  description?: string;
  default?: string;
  options?: string[];
}

export interface Driver {
  name: string;
  displayName: string;
  /** Absent if Drover does not know the fields of the machine configs. */
  schema?: ConfigSchema;
  /** Absent if Drover does not know the values of the credential. */
  credential?: CredentialField[];
}

export interface Drivers {
  items: Driver[] | null;
  error?: string;
  reason?: string;
}

export type Role = 'etcd' | 'controlplane' | 'worker';

/** What the server makes a manifest of. */
export interface ManifestRequest {
  namespace: string;
  name: string;
  version: string;
  cni?: string;
  driver?: string;
  credential?: string;
  pools: { name: string; size: number; roles: Role[]; config: Record<string, string[]> }[];
}
