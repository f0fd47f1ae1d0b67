import type { CredentialField, Driver } from '../pages/create/types';

const s3Field = (name: string, description: string, more: Partial<CredentialField> = {}): CredentialField => ({
  name,
  type: 'string',
  secret: false,
  required: false,
  description,
  ...more,
});

/** What a credential for snapshots in S3 needs. It has the form of a driver, and makes no machines. */
export const s3: Driver = {
  name: 's3',
  displayName: 'S3, for snapshots',
  credential: [
    s3Field('accessKey', 'Access key of the bucket', { required: true }),
    s3Field('secretKey', 'Secret key of the bucket', { required: true, secret: true }),
    s3Field('defaultRegion', 'Region'),
    s3Field('defaultEndpoint', 'Address of the storage'),
    s3Field('defaultEndpointCA', 'Certificate authority of the storage'),
    s3Field('defaultSkipSSLVerify', 'true skips the check of the certificate'),
    s3Field('defaultBucket', 'Bucket'),
    s3Field('defaultFolder', 'Folder in the bucket'),
  ],
};

/** A value of a credential as its form holds it. */
export interface Entry {
  key: string;
  value: string;
}

/** The fields of a credential: required ones first. */
export function credentialFields(fields: readonly CredentialField[] | undefined): CredentialField[] {
  return [...(fields ?? [])].sort((a, b) => Number(b.required) - Number(a.required));
}

/** Reports whether a form can ask for the values by name. Otherwise its user types the names, too. */
export const hasFields = (fields: readonly CredentialField[] | undefined) => !!fields?.length;

/** The entries that the form shows. With known fields, it shows no other names. */
export function shownEntries(fields: readonly CredentialField[] | undefined, entries: readonly Entry[]): Entry[] {
  return entries.filter(({ key }) => !hasFields(fields) || fields!.some(({ name }) => name === key));
}

/** The values of a request, without empty ones. */
export function valuesOf(entries: readonly Entry[]): Record<string, string> {
  const out: Record<string, string> = {};
  for (const { key, value } of entries) if (key.trim() && value !== '') out[key.trim()] = value;
  return out;
}

/** What is wrong with the values, by the name of the field. The key '' is about all. */
export function checkValues(
  fields: readonly CredentialField[] | undefined,
  entries: readonly Entry[],
): Record<string, string> {
  const errors: Record<string, string> = {};
  const values = valuesOf(entries);
  for (const field of fields ?? [])
    if (field.required && !(field.name in values)) errors[field.name] = 'The driver requires this value.';
  const keys = entries.map(({ key }) => key.trim()).filter(Boolean);
  if (new Set(keys).size < keys.length) errors[''] = 'Two values have the same name.';
  else if (Object.keys(values).length === 0) errors[''] ??= 'A credential needs a value.';
  return errors;
}

/** The field of the form that a problem of the server is about. "values.token" is the value token. */
export function fieldOfProblem(field: string | undefined): string {
  return field?.replace(/^values(\.|\[["']?)/, '').replace(/["']?\]$/, '') ?? '';
}
