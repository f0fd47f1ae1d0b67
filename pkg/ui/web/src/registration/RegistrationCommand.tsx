import { TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiError, objectPath } from '../api/client';
import { isTemporary } from '../api/queries';
import { askJSON } from '../change/api';
import { Command, sentence } from '../components/Command';
import { CheckGroup } from '../components/CheckGroup';
import { Failure, Notice } from '../components/Notice';
import { useSettled } from '../lib/settled';
import { formatExact } from '../lib/time';
import { useMachines } from '../live/hooks';
import {
  hostRoles,
  missingRoles,
  noOptions,
  optionOf,
  queryOf,
  type HostOptions,
  type HostRole,
} from './registration';
import './registration.css';

interface Registration {
  command: string;
  insecureCommand?: string;
  expires?: string | null;
}

/** The command that registers a host, with its options. It contains a token, so it stays in no cache. */
export function RegistrationCommand({ namespace, name }: { namespace: string; name: string }) {
  const missing = missingRoles(useMachines(namespace, name));
  const [options, setOptions] = useState<HostOptions>(() => noOptions(missing));
  const query = useSettled(queryOf(options));
  const { data, error, refetch } = useQuery({
    queryKey: ['registration', namespace, name, query],
    queryFn: ({ signal }) =>
      askJSON<Registration>(`${objectPath('clusters', namespace, name, 'registration')}?${query}`, { signal }),
    gcTime: 0,
    enabled: options.roles.length > 0,
    placeholderData: (earlier) => earlier,
    retry: (count, e) => count < 3 && isTemporary(e),
    // The token of a new cluster appears after some seconds.
    refetchInterval: (q) => (q.state.error instanceof ApiError && q.state.error.status === 404 ? 3_000 : false),
  });
  const errors = errorsOf(error);
  const set = (change: Partial<HostOptions>) => setOptions((old) => ({ ...old, ...change }));
  return (
    <div className="registration">
      <CheckGroup
        label="Roles of the host"
        choices={hostRoles}
        value={options.roles}
        onChange={(roles) => set({ roles: roles as HostRole[] })}
        error={options.roles.length ? errors.roles : 'A host needs a role.'}
      />
      <Options options={options} errors={errors} set={set} />
      {error && Object.keys(errors).length === 0 && <Problem error={error} retry={() => void refetch()} />}
      {data && !error && options.roles.length > 0 && <Commands registration={data} />}
    </div>
  );
}

function Options({
  options,
  errors,
  set,
}: {
  options: HostOptions;
  errors: Record<string, string>;
  set: (change: Partial<HostOptions>) => void;
}) {
  const field = (
    name: 'labels' | 'taints' | 'address' | 'internalAddress' | 'nodeName',
    label: string,
    hint: string,
  ) => (
    <TextInput
      label={label}
      description={hint}
      value={options[name]}
      error={errors[name]}
      onChange={(e) => set({ [name]: e.currentTarget.value })}
      autoComplete="off"
      spellCheck={false}
    />
  );
  const hasErrors = Object.keys(errors).some((name) => name !== 'roles');
  return (
    <details className="registration-options" open={hasErrors || undefined}>
      <summary>Name, labels, taints and addresses</summary>
      <div className="registration-fields">
        {field('nodeName', 'Name of the node', 'The default is the name of the host')}
        {field('labels', 'Labels', 'For example site=north rack=7')}
        {field('taints', 'Taints', 'For example gpu=yes:NoSchedule')}
        {field('address', 'Public address', 'An IP address or the name of an interface')}
        {field('internalAddress', 'Private address', 'An IP address or the name of an interface')}
      </div>
    </details>
  );
}

function Commands({ registration: { command, insecureCommand, expires } }: { registration: Registration }) {
  return (
    <div className="registration-commands">
      <p className="dim">
        Run this on the host. The command contains a secret token: each host that runs it joins the cluster.
        {expires && ` The token is valid until ${formatExact(expires)}.`}
      </p>
      <Command text={command} />
      {insecureCommand && (
        <details>
          <summary>The host does not trust the certificate of the server</summary>
          <p className="dim">This command checks the script by its SHA-256 instead of the certificate.</p>
          <Command text={insecureCommand} />
        </details>
      )}
    </div>
  );
}

function Problem({ error, retry }: { error: unknown; retry: () => void }) {
  if (error instanceof ApiError && error.status === 404) return <Notice tone="busy">{sentence(error.message)}</Notice>;
  return <Failure error={error} retry={retry} />;
}

function errorsOf(error: unknown): Record<string, string> {
  if (!(error instanceof ApiError)) return {};
  return Object.fromEntries((error.problems ?? []).map((p) => [optionOf(p.field), sentence(p.message)]));
}
