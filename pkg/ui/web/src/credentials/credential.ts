import type { CredentialField } from '../pages/create/types';

/** A value of a credential as its form holds it. */
export interface Entry {
  key: string;
  value: string;
}

/** The fields of a credential: required ones first. */
export function credentialFields(fields: readonly CredentialField[] | undefined): CredentialField[] {
  return [...(fields ?? [])].sort((a, b) => Number(b.required) - Number(a.required) || (a.name < b.name ? -1 : 1));
}

/** Reports whether a form can ask for the values by name. Otherwise its user types the names, too. */
export const hasFields = (fields: readonly CredentialField[] | undefined) => !!fields?.length;

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
