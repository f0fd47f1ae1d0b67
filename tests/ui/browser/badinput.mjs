// Everything that can fail while a user changes a cluster. The page says it at its place, keeps what was typed, and
// writes each change once.
import { apply, button, dialog, manifestOf, openAction, openCluster, paste, preview } from './change.mjs';
import { env, equal, flawless, forgive, open, see, signIn, step, test, truth, until } from './harness.mjs';

const [namespace, name] = [env('NAMESPACE'), 'demo'];
const editor = (page) => page.getByRole('textbox', { name: 'Manifest' });
const problems = (page) => page.getByRole('list', { name: 'Problems' });
const size = (page) => dialog(page).getByLabel('Machines of pool workers');

async function signedIn(browser, token = env('TOKEN')) {
  const page = await open(browser);
  await openCluster(page, env('URL'), namespace, name, 'yaml');
  await signIn(page, token);
  if (token === env('VIEWER')) {
    await (await see(page.getByLabel('Namespaces', { exact: true }))).fill(namespace);
    await button(page, 'Show clusters').click();
  }
  await see(editor(page));
  return page;
}

/** Puts an edit into the editor that starts from the live manifest. */
async function edit(page, change) {
  await openCluster(page, env('URL'), namespace, name, 'yaml');
  await see(editor(page));
  await paste(page, change(await manifestOf(page, namespace, name)));
}

/** Adds a label of the Cluster, which can have labels already. */
const withLabel = (label) => (text) =>
  /\n {2}labels:\n/.test(text)
    ? text.replace('\n  labels:\n', `\n  labels:\n    ${label}\n`)
    : text.replace('\nmetadata:\n', `\nmetadata:\n  labels:\n    ${label}\n`);

/** Reads a text of the editor. The editor keeps only visible lines, so the text must be near its beginning. */
async function holds(page, text) {
  truth(`the editor holds ${text}`, (await editor(page).innerText()).includes(text), await editor(page).innerText());
}

/** The editor offers fields and values of the schema, and the key Tab leaves it. */
async function completion(page) {
  await edit(page, () => 'kind: Cluster\nspec:\n  kubernetesV');
  await page.keyboard.press('Control+Space');
  const option = await see(page.getByRole('option', { name: /^kubernetesVersion/ }));
  await see(page.locator('.cm-completionInfo'));
  await option.click();
  await holds(page, 'kubernetesVersion: ');
  await see(page.locator('.field-help').getByText('spec.kubernetesVersion'));
  await page.keyboard.press('Tab');
  equal('Tab leaves the editor', await editor(page).evaluate((e) => e === document.activeElement), false);
}

async function mistakes(page) {
  await edit(page, (text) => text.replace('kind: Cluster\n', 'kind: Cluster\n  wrong: [\n'));
  await button(page, 'Preview').click();
  await see(problems(page));
  const place = await see(problems(page).getByRole('button', { name: /^Line \d+:/ }));
  await see(page.locator('.cm-lint-marker-error'));
  truth('broken YAML cannot be applied', await button(page, 'Apply').isDisabled());
  await holds(page, 'wrong: [');
  await place.click();
  equal('the place has the focus', await editor(page).evaluate((e) => e === document.activeElement), true);

  await edit(page, (text) => text.replace('\nspec:\n', '\nspec:\n  kubernetesVersoin: v1\n'));
  const line = (await manifestOf(page, namespace, name)).split('\n').indexOf('spec:') + 2;
  await button(page, 'Preview').click();
  await see(problems(page).getByText('spec.kubernetesVersoin:'));
  await see(problems(page).getByRole('button', { name: `Line ${line}:` }));
  truth('an unknown field cannot be applied', await button(page, 'Apply').isDisabled());
  equal('writes of mistakes', await step('writes'), '0');
  await flawless(page);
}

/** A link asks while there is an edit, and the edit stays. */
async function leaving(page) {
  await edit(page, withLabel('kept: here'));
  await page.getByRole('tab', { name: 'Overview' }).click();
  await see(dialog(page).getByText('Discard your edit?'));
  await button(page, 'Stay on the page').click();
  await holds(page, 'kept: here');
  await page.getByRole('tab', { name: 'Overview' }).click();
  await dialog(page).getByRole('button', { name: 'Discard the edit' }).click();
  await see(page.getByRole('heading', { name: 'Diagnosis' }));
}

async function viewer(browser) {
  const page = await signedIn(browser, env('VIEWER'));
  await see(page.getByText(`You may not change clusters in ${namespace}`));
  equal('the manifest is read only', await editor(page).getAttribute('contenteditable'), 'false');
  await button(page, 'Actions').click();
  await see(page.getByRole('menuitem', { name: 'Scale' }));
  truth('the forms are disabled', await page.getByRole('menuitem', { name: 'Scale' }).isDisabled());
  await page.keyboard.press('Escape');
  await button(page, 'Try an edit').click();
  await paste(page, withLabel('team: shop')(await manifestOf(page, namespace, name)));
  await button(page, 'Preview').click();
  // The effect on machines depends on their plans, which only some users may read.
  await see(page.getByText(/forbidden/));
  truth('a viewer cannot apply', await button(page, 'Apply').isDisabled());
  await flawless(page);
}

/** A policy refuses the write after the preview, and then the preview. */
async function policy(page) {
  await edit(page, withLabel('forbidden: "yes"'));
  await preview(page);
  await step('forbid');
  await button(page, 'Apply').click();
  await see(page.getByText(/the label forbidden is not allowed here/));
  await see(page.getByText('Nothing was written.'));
  await holds(page, 'forbidden');
  await button(page, 'Preview').click();
  await see(problems(page).getByText(/the label forbidden is not allowed here/));
  truth('a refused edit cannot be applied', await button(page, 'Apply').isDisabled());
}

/** The write takes effect, and its answer is lost. The page does not send it again. */
async function lostAnswer(page) {
  await openCluster(page, env('URL'), namespace, name);
  await openAction(page, 'Labels');
  await dialog(page).getByRole('button', { name: 'Add a label' }).click();
  await dialog(page).getByLabel('Key of label 1').fill('lost');
  await dialog(page).getByLabel('Value of label 1').fill('answer');
  await preview(page);
  const before = Number(await step('writes'));
  await step('lose the answer');
  await button(page, 'Apply').click();
  await see(dialog(page).getByText(/The write may have taken effect/));
  truth('another preview is necessary', await button(page, 'Apply').isDisabled());
  equal('the form keeps its text', await dialog(page).getByLabel('Value of label 1').inputValue(), 'answer');
  equal('writes', Number(await step('writes')), before + 1);
  truth('it took effect', (await manifestOf(page, namespace, name)).includes('lost: answer'));
  await button(page, 'Preview').click();
  await see(dialog(page).getByText('The cluster already has these values.'));
  await until('the doubt ends', async () =>
    (await dialog(page).getByText(/may have taken effect/).count()) ? 'the page still says it' : '',
  );
}

/** The connection is cut while a form is open. */
async function cutWatch(page) {
  await openCluster(page, env('URL'), namespace, name);
  await openAction(page, 'Scale');
  await size(page).fill('1');
  await step('cut');
  await see(page.getByText('Reconnecting to the server.'));
  await button(page, 'Preview').click();
  await see(dialog(page).getByText('The server does not answer.'));
  equal('the form keeps its number', await size(page).inputValue(), '1');
  await step('join');
  await preview(page);
  const before = Number(await step('writes'));
  await apply(page);
  equal('writes', Number(await step('writes')), before + 1);
  await button(dialog(page).locator('.change-bar'), 'Close').click();
  await see(page.getByText('1 of 2').or(page.getByText('2 of 2')), 60_000);
}

async function signInAgain(page) {
  const again = page.getByRole('dialog', { name: 'Sign in to continue' });
  await see(again);
  await again.getByLabel('Token', { exact: true }).fill(env('TOKEN'));
  await again.getByRole('button', { name: 'Sign in' }).click();
  await until('the dialog closes', async () => ((await again.count()) ? 'it is open' : ''));
}

/** The session ends while a form is open, and while the editor holds an edit. */
async function sessionEnds(page) {
  await openCluster(page, env('URL'), namespace, name);
  await openAction(page, 'Scale');
  await size(page).fill('0');
  await page.context().clearCookies();
  // Another request of the page can be the first that the server refuses, and the dialog covers the button then.
  await button(page, 'Preview').dispatchEvent('click');
  await signInAgain(page);
  equal('the form keeps its number', await size(page).inputValue(), '0');
  await preview(page);
  await apply(page);
  await button(dialog(page).locator('.change-bar'), 'Close').click();

  await edit(page, withLabel('after: sign-in'));
  await preview(page);
  const [writes, generation] = [Number(await step('writes')), Number(await step('generation'))];
  await page.context().clearCookies();
  await button(page, 'Apply').dispatchEvent('click');
  await signInAgain(page);
  await holds(page, 'after: sign-in');
  await apply(page);
  equal('writes', Number(await step('writes')), writes + 1);
  truth('it is written', (await manifestOf(page, namespace, name)).includes('after: sign-in'));
  equal('the generation, which a label does not change', Number(await step('generation')), generation);
}

/** Another user edits the cluster between preview and apply. */
async function foreignEdit(page) {
  await openCluster(page, env('URL'), namespace, name);
  await openAction(page, 'Protection from deletion');
  await dialog(page).getByLabel('Protect the cluster from deletion').check();
  await preview(page);
  await step('foreign edit');
  await button(page, 'Apply').click();
  await see(dialog(page).getByText('The cluster has changed since the preview. Nothing was written.'));
  truth('another preview is necessary', await button(page, 'Apply').isDisabled());
  await preview(page);
  await apply(page);
  const text = await manifestOf(page, namespace, name);
  truth('both edits are there', text.includes('foreign: edit') && text.includes('drover.io/protect'), text);
}

await test(async (browser) => {
  const page = await signedIn(browser);
  await completion(page);
  await mistakes(page);
  await leaving(page);
  await viewer(browser);
  await policy(page);
  await lostAnswer(page);
  await cutWatch(page);
  await sessionEnds(page);
  await foreignEdit(page);
  forgive();
  await flawless(page);
});
