import { Command } from '../components/Command';
import { Notice } from '../components/Notice';
import { TokenForm } from './TokenForm';
import './session.css';

/** Asks for a token of the management cluster. The URL stays, so the user continues at the same page. */
export default function SignIn({ note }: { note?: string }) {
  return (
    <main className="sign-in">
      <div className="sign-in-brand">
        <img src="/ui/favicon.svg" alt="" width={34} height={34} />
        <h1>Sign in to Drover</h1>
      </div>
      {note && <Notice tone="busy">{note}</Notice>}
      <TokenForm className="card card-body" />
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
