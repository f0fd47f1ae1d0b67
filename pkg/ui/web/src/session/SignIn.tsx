import { Button, PasswordInput } from '@mantine/core';
import { useState, type FormEvent } from 'react';
import { messageOf } from '../api/client';
import { Command, sentence } from '../components/Command';
import { Notice } from '../components/Notice';
import { signIn } from './store';
import './session.css';

/** Asks for a token of the management cluster. The URL stays, so the user continues at the same page. */
export default function SignIn({ note }: { note?: string }) {
  const [token, setToken] = useState('');
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    setError('');
    try {
      await signIn(token.trim());
    } catch (e) {
      setError(sentence(messageOf(e)));
      setBusy(false);
    }
  }

  return (
    <main className="sign-in">
      <div className="sign-in-brand">
        <img src="/ui/favicon.svg" alt="" width={34} height={34} />
        <h1>Sign in to Drover</h1>
      </div>
      {note && <Notice tone="busy">{note}</Notice>}
      <form className="card card-body" onSubmit={submit}>
        <PasswordInput
          label="Token"
          description="A bearer token of the management cluster"
          value={token}
          error={error}
          aria-invalid={!!error}
          onChange={(event) => setToken(event.currentTarget.value)}
          autoComplete="off"
          autoFocus
          required
          withAsterisk={false}
          visibilityToggleButtonProps={{ 'aria-label': 'Show the token' }}
        />
        <Button type="submit" loading={busy} disabled={!token.trim()} fullWidth mt="md">
          Sign in
        </Button>
      </form>
      <section className="sign-in-help" aria-label="Where to get a token">
        <h2>Where to get a token</h2>
        <p>Make one for a ServiceAccount that may read clusters. It sees and does what its permissions allow.</p>
        <Command text="kubectl -n fleet-default create token SERVICE_ACCOUNT --duration=8h" />
        <p>To use your own kubeconfig instead, start the UI on your computer. It opens this page and signs you in.</p>
        <Command text="drover ui" />
      </section>
    </main>
  );
}
