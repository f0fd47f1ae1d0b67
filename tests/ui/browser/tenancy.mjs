// Looks at a cluster as a user of another namespace, and as a user who may only read it.
import { env, equal, flawless, open, see, signIn, test, truth } from './harness.mjs';

const secret = 'secret-plans';
const cluster = `/ui/api/v1/namespaces/${env('OURS')}/clusters/${secret}`;
const object = `/ui/api/v1/k8s/apis/provisioning.cattle.io/v1/namespaces/${env('OURS')}/clusters/${secret}`;

/** Sends a request as a script of the page can: with its cookie, and with its proof for unsafe requests. */
const ask = (page, method, path, body, type = 'application/json') =>
  page.evaluate(
    async ([method, path, body, type]) => {
      const session = await (await fetch('/ui/api/v1/session')).json();
      const headers = { 'Content-Type': type, 'X-Drover-CSRF': session.csrf };
      const response = await fetch(path, { method, headers, body });
      return { status: response.status, text: await response.text() };
    },
    [method, path, body, type],
  );

async function choose(page, namespace) {
  const field = await see(page.getByLabel('Namespaces', { exact: true }));
  await field.fill(namespace);
  await page.getByRole('button', { name: 'Show clusters' }).click();
}

async function stranger(browser) {
  const page = await open(browser);
  await page.goto(`${env('URL')}/ui/clusters`);
  await signIn(page, env('STRANGER'));
  await choose(page, env('OURS'));
  await see(page.getByText(`You may not see clusters in ${env('OURS')}`));
  await choose(page, env('THEIRS'));
  await see(page.getByText('No clusters yet'));

  await page.goto(`${env('URL')}/ui/clusters/${env('OURS')}/${secret}`);
  await see(page.getByText('does not exist, or you may not see it'));
  for (const path of ['diagnose', 'explain', 'logs', 'events', 'kubeconfig', 'supportbundle', 'manifest']) {
    const { status, text } = await ask(page, 'GET', `${cluster}/${path}`);
    equal(`the status of ${path}`, status, 403);
    truth(`${path} tells no state`, !/Ready|v1\.3|c-m-/.test(text), text);
  }
  equal('the status of the object', (await ask(page, 'GET', object)).status, 403);
  const { text } = await ask(page, 'GET', '/ui/api/v1/administration');
  truth('the administration names no cluster', !text.includes(secret) && !text.includes(env('OURS')), text);
  await flawless(page);
}

/** Reads rows from the stream until both kinds are complete. */
const rows = (page, namespaces) =>
  page.evaluate(async (namespaces) => {
    const response = await fetch(`/ui/api/v1/stream?namespaces=${namespaces}`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while ((text.match(/event: (synced|problem)/g) ?? []).length < 2) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
    }
    await reader.cancel();
    return text;
  }, namespaces);

async function streams(browser) {
  const page = await open(browser);
  await page.goto(`${env('URL')}/ui/clusters`);
  await signIn(page, env('STRANGER'));
  await see(page.getByLabel('Namespaces', { exact: true }));
  for (const namespaces of ['*', env('OURS'), `${env('OURS')},${env('THEIRS')}`]) {
    const text = await rows(page, namespaces);
    truth(`a stream of ${namespaces} has no row of the cluster`, !text.includes(secret), text);
  }
  await flawless(page);
}

async function viewer(browser) {
  const page = await open(browser);
  await page.goto(`${env('URL')}/ui/clusters`);
  await signIn(page, env('VIEWER'));
  await choose(page, env('OURS'));
  await page.getByRole('link', { name: secret }).click();
  await see(page.getByRole('heading', { name: secret }));
  equal('access', JSON.parse((await ask(page, 'GET', `/ui/api/v1/namespaces/${env('OURS')}/access`)).text), {
    clusters: 'view',
  });

  await page.getByRole('tab', { name: 'YAML' }).click();
  const manifest = await see(page.getByLabel('Manifest'));
  await manifest.click();
  await page.keyboard.type('kubernetesVersion: v1.0.0+k3s1');
  truth('the manifest is read only', !(await manifest.innerText()).includes('v1.0.0'));

  const change = '{"spec":{"kubernetesVersion":"v1.0.0+k3s1"}}';
  for (const [method, body, type] of [
    ['PATCH', change, 'application/merge-patch+json'],
    ['PUT', change],
    ['POST', change],
    ['DELETE'],
  ]) {
    const { status, text } = await ask(page, method, object, body, type);
    truth(`${method} is refused`, status === 403 || status === 404 || status === 405, `${status} ${text}`);
  }
  const { text } = await ask(page, 'GET', `${cluster}/manifest`);
  truth('the manifest is that of the cluster', text.includes(`name: ${secret}`), text);
  const preview = text.replace(/kubernetesVersion: .*/, 'kubernetesVersion: v1.36.3+k3s1');
  const { status } = await ask(page, 'POST', `${cluster}/preview`, preview, 'text/yaml');
  truth('a preview changes nothing, whether the viewer may make it or not', status === 200 || status === 403, status);
  await flawless(page);
}

await test(async (browser) => {
  await stranger(browser);
  await streams(browser);
  await viewer(browser);
});
