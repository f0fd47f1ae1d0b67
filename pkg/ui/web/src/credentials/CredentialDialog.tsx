import { Button, NativeSelect, TextInput } from '@mantine/core';
import { useRef, useState, type FormEvent } from 'react';
import { ApiError, messageOf } from '../api/client';
import { sentence } from '../components/Command';
import { Dialog } from '../components/Dialog';
import { chevron } from '../components/Icon';
import { Failure, Notice } from '../components/Notice';
import { announce } from '../lib/announce';
import { useUnsaved } from '../lib/unsaved';
import { labelOf, sharedNamespace } from '../pages/create/form';
import { useDrivers } from '../pages/create/api';
import type { Driver } from '../pages/create/types';
import { createCredential, replaceCredential, type CredentialName } from './api';
import {
  checkValues,
  credentialFields,
  fieldOfProblem,
  hasFields,
  s3,
  shownEntries,
  valuesOf,
  type Entry,
} from './credential';
import { KeyValueEntries, SecretInput } from './SecretInput';
import './credentials.css';

interface Props {
  /** The credential whose values to replace. Without it, the dialog makes a new one. */
  replace?: CredentialName & { displayName: string };
  /** The driver, if the user cannot choose it. */
  driver?: string;
  namespace?: string;
  onClose: () => void;
  onDone?: (made: CredentialName) => void;
}

/** Makes a credential or replaces its values. The values are nowhere but in the fields, and only until the request. */
export default function CredentialDialog(props: Props) {
  const { replace, onClose } = props;
  const drivers = useDrivers();
  const [busy, setBusy] = useState(false);
  const title = replace ? `Replace the values of ${replace.displayName || replace.name}` : 'New cloud credential';
  return (
    <Dialog title={title} onClose={onClose} busy={busy}>
      {drivers.error && <Failure error={drivers.error} retry={() => void drivers.refetch()} />}
      {drivers.data && (
        <CredentialForm {...props} drivers={[...(drivers.data.items ?? []), s3]} busy={busy} setBusy={setBusy} />
      )}
    </Dialog>
  );
}

type FormProps = Props & { drivers: Driver[]; busy: boolean; setBusy: (busy: boolean) => void };

function CredentialForm({ replace, driver: fixed, namespace: initial, drivers, busy, setBusy, ...on }: FormProps) {
  const [chosen, setChosen] = useState(fixed ?? (drivers[0] === s3 ? '' : (drivers[0]?.name ?? '')));
  const [namespace, setNamespace] = useState(initial ?? sharedNamespace);
  const [displayName, setDisplayName] = useState('');
  const [typed, setEntries] = useState<Entry[]>([]);
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [failure, setFailure] = useState<unknown>();
  const form = useRef<HTMLFormElement>(null);
  const fields = drivers.find(({ name }) => name.toLowerCase() === chosen.toLowerCase())?.credential;
  const entries = shownEntries(fields, typed);
  useUnsaved(busy || displayName !== '' || entries.some(({ key, value }) => key !== '' || value !== ''));

  /** Another driver must not get the values of the former one. */
  function choose(driver: string) {
    setChosen(driver);
    setEntries([]);
    setErrors({});
  }

  async function submit(event: FormEvent) {
    event.preventDefault();
    event.stopPropagation();
    const found: Record<string, string> = checkValues(fields, entries);
    if (!chosen) found.driver = 'A credential needs a driver.';
    if (!replace && !displayName.trim()) found.displayName = 'A credential needs a name.';
    if (!replace && !namespace.trim()) found.namespace = 'A credential needs a namespace.';
    setFailure(undefined);
    setErrors(found);
    if (Object.keys(found).length > 0) return focusFirstError(form.current);
    setBusy(true);
    try {
      const values = valuesOf(entries);
      const made = replace
        ? await replaceCredential(replace, values)
        : await createCredential(namespace.trim(), { displayName: displayName.trim(), driver: chosen, values });
      setEntries([]);
      announce(replace ? 'The values are replaced.' : 'The credential is made.');
      on.onDone?.(made);
      on.onClose();
    } catch (error) {
      setErrors(errorsOf(error));
      setFailure(error);
      setBusy(false);
      focusFirstError(form.current);
    }
  }

  return (
    <form className="credential-form" ref={form} onSubmit={submit} autoComplete="off" noValidate>
      {replace && (
        <p className="dim">
          This replaces all values of{' '}
          <b>
            {replace.namespace}/{replace.name}
          </b>
          . Drover shows no stored value. Enter every value again.
        </p>
      )}
      {!replace && (
        <>
          {fixed === undefined && (
            <DriverSelect drivers={drivers} value={chosen} error={errors.driver} onChange={choose} />
          )}
          <TextInput
            label="Name"
            description="What the lists of credentials show"
            value={displayName}
            error={errors.displayName}
            required
            onChange={(e) => setDisplayName(e.currentTarget.value)}
            data-autofocus
          />
          <TextInput
            label="Namespace"
            description={
              namespace.trim() === sharedNamespace
                ? 'For clusters of several namespaces, which need a permission to use it.'
                : 'Only clusters of this namespace can use the credential.'
            }
            value={namespace}
            error={errors.namespace}
            onChange={(e) => setNamespace(e.currentTarget.value)}
            spellCheck={false}
            required
          />
        </>
      )}
      {hasFields(fields) ? (
        credentialFields(fields).map((field) => (
          <SecretInput
            key={`${chosen} ${field.name}`}
            field={field}
            label={labelOf(field.name)}
            error={errors[field.name]}
            value={entries.find(({ key }) => key === field.name)?.value ?? ''}
            onChange={(value) =>
              setEntries((old) => [...old.filter(({ key }) => key !== field.name), { key: field.name, value }])
            }
          />
        ))
      ) : (
        <KeyValueEntries entries={entries} onChange={setEntries} />
      )}
      {errors[''] && <Notice tone="bad">{errors['']}</Notice>}
      {failure !== undefined && <Refusal error={failure} />}
      <div className="credential-buttons">
        <Button variant="default" onClick={on.onClose} disabled={busy}>
          Cancel
        </Button>
        <Button type="submit" loading={busy}>
          {replace ? 'Replace the values' : 'Create the credential'}
        </Button>
      </div>
    </form>
  );
}

function DriverSelect({
  drivers,
  value,
  error,
  onChange,
}: {
  drivers: Driver[];
  value: string;
  error?: string;
  onChange: (name: string) => void;
}) {
  if (drivers.every((driver) => driver === s3))
    return (
      <TextInput
        label="Driver"
        description="You may not list the node drivers, or none is active. Type the name of a driver."
        value={value}
        error={error}
        onChange={(e) => onChange(e.currentTarget.value)}
        spellCheck={false}
        required
      />
    );
  return (
    <NativeSelect
      label="Driver"
      rightSection={chevron}
      data={drivers.map(({ name, displayName }) => ({ value: name, label: displayName || name }))}
      value={value}
      error={error}
      onChange={(e) => onChange(e.currentTarget.value)}
      required
    />
  );
}

/** An unknown outcome matters: another try could make a second credential. */
function Refusal({ error }: { error: unknown }) {
  const unknown = !(error instanceof ApiError) || error.status === 0 || error.status >= 500;
  return (
    <Notice tone="bad">
      {sentence(messageOf(error))}
      {unknown && ' The request may have taken effect. Look at the list of credentials before you try again.'}
    </Notice>
  );
}

function errorsOf(error: unknown): Record<string, string> {
  if (!(error instanceof ApiError)) return {};
  return Object.fromEntries((error.problems ?? []).map((p) => [fieldOfProblem(p.field), sentence(p.message)]));
}

function focusFirstError(form: HTMLFormElement | null) {
  // The fields have their errors after the next rendering.
  requestAnimationFrame(() => form?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus());
}
