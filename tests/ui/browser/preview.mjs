// Makes ten edits of a running cluster, in the editor and in forms. The Go test compares the page's preview of each
// with what then happens.
import { writeFileSync } from 'node:fs';
import { apply, button, dialog, manifestOf, openAction, openCluster, paste, preview } from './change.mjs';
import { env, equal, flawless, open, see, signIn, step, test, truth } from './harness.mjs';

const [namespace, name] = [env('NAMESPACE'), 'demo'];

/** Replaces a part of a text that must be there. */
function put(text, old, next) {
  truth(`the manifest has ${old}`, text.includes(old), text);
  return text.replace(old, next);
}

const config = (pool) => `---
apiVersion: rke-machine-config.cattle.io/v1
kind: SimConfig
metadata:
  name: ${name}-${pool}
  namespace: ${namespace}
size: small
disk: "20"
`;

const pool = `    - machineConfigRef:
        kind: SimConfig
        name: ${name}-more
      name: more
      quantity: 1
      workerRole: true
`;

/** An edit of the manifest in the editor. */
const typed = (edit) => async (page) => {
  await openCluster(page, env('URL'), namespace, name, 'yaml');
  await see(page.getByRole('textbox', { name: 'Manifest' }));
  await paste(page, edit(await manifestOf(page, namespace, name)));
  return '';
};

/** An edit in a form of the menu. */
const form =
  (label, fill, applyLabel = 'Apply') =>
  async (page) => {
    await openCluster(page, env('URL'), namespace, name);
    await openAction(page, label);
    await fill(dialog(page));
    return applyLabel;
  };

const scaleTo = (size) => form('Scale', (box) => box.getByLabel('Machines of pool workers').fill(size));
const key = (lines) => typed((text) => put(text, '  rkeConfig:\n', `  rkeConfig:\n${lines}`));

const edits = [
  [
    'a label',
    form('Labels', async (box) => {
      await button(box, 'Add a label').click();
      await box.getByLabel('Key of label 1').fill('team');
      await box.getByLabel('Value of label 1').fill('shop');
    }),
  ],
  ['one more worker', scaleTo('3')],
  ['one worker less', scaleTo('2')],
  ['a key of the configuration', key('    machineGlobalConfig:\n      debug: true\n')],
  ['a file', key('    additionalManifest: "# nothing"\n')],
  [
    'a mirror of a registry',
    key('    registries:\n      mirrors:\n        docker.io:\n          endpoint:\n          - https://mirror.test\n'),
  ],
  [
    'other hosts for the workers',
    typed((text) => {
      const at = text.indexOf(`name: ${name}-workers\n  namespace`);
      truth('the manifest has the machine config of the workers', at > 0, text);
      return text.slice(0, at) + put(text.slice(at), 'size: small', 'size: large');
    }),
  ],
  ['another pool', typed((text) => put(text, '    machinePools:\n', `    machinePools:\n${pool}`) + config('more'))],
  ['a pool less', typed((text) => put(text, pool, ''))],
  [
    'a version',
    form('Kubernetes version', (box) => box.getByLabel('Version', { exact: true }).fill(env('VERSION')), 'Upgrade'),
  ],
  ['a pause', form('Pause or resume pools', (box) => box.getByLabel('Pause pool workers').check())],
];

await test(async (browser) => {
  const page = await open(browser);
  await openCluster(page, env('URL'), namespace, name);
  await signIn(page, env('TOKEN'));
  await see(page.getByRole('heading', { name }));
  for (const [what, edit] of edits) {
    const applyLabel = (await edit(page)) || 'Apply';
    truth(`${what}: nothing can be applied without a preview`, await button(page, applyLabel).isDisabled());
    await step('before');
    const said = await preview(page);
    console.log(`${what}: ${said.summary} ${said.order}`);
    writeFileSync(env('RESULT'), JSON.stringify({ what, ...said }));
    await apply(page, applyLabel);
    equal(`${what}: what happened`, await step('compare'), '');
  }
  await flawless(page);
});
