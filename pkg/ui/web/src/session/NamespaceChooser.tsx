import { Button, TextInput } from '@mantine/core';
import { useState, type FormEvent } from 'react';
import { messageOf } from '../api/client';
import { sentence } from '../components/Command';
import { useTitle } from '../layout/Shell';
import { chooseNamespaces, namespaceOf, parseNames, withoutAccess } from './namespaces';
import './session.css';

/** Asks a user who may not see the clusters of all namespaces for names. */
export default function NamespaceChooser() {
  useTitle('Choose namespaces');
  const [text, setText] = useState(namespaceOf(location.pathname) ?? 'fleet-default');
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const names = parseNames(text);

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    setError('');
    try {
      const denied = await withoutAccess(names);
      if (denied.length === 0) chooseNamespaces(names);
      else setError(`You may not see clusters in ${denied.join(', ')}. Ask for the verb list on clusters there.`);
    } catch (e) {
      setError(sentence(messageOf(e)));
    }
    setBusy(false);
  }

  return (
    <div className="sign-in">
      <h1>Choose namespaces</h1>
      <p className="dim">
        You may not list the clusters of all namespaces. Name the namespaces whose clusters you want to see. This
        browser remembers them.
      </p>
      <form className="card card-body" onSubmit={submit}>
        <TextInput
          label="Namespaces"
          description="Separated by spaces or commas"
          value={text}
          error={error}
          onChange={(event) => setText(event.currentTarget.value)}
          autoComplete="off"
          spellCheck={false}
        />
        <Button type="submit" loading={busy} disabled={names.length === 0} fullWidth mt="md">
          Show clusters
        </Button>
      </form>
    </div>
  );
}
