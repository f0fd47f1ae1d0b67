// What scripts share that change clusters: the editor, the forms of the menu, and the preview on the page.
import { see, truth, until } from './harness.mjs';

export const button = (page, name) => page.getByRole('button', { name, exact: true });
export const dialog = (page) => page.getByRole('dialog');

/** Opens the page of a cluster at a tab. */
export async function openCluster(page, url, namespace, name, tab = '') {
  await page.goto(`${url}/ui/clusters/${namespace}/${name}${tab && `?tab=${tab}`}`);
}

/** Opens a dialog of the menu "Actions". */
export async function openAction(page, label) {
  await button(page, 'Actions').click();
  await page.getByRole('menuitem', { name: label, exact: true }).click();
  await see(dialog(page));
}

/** Reads the manifest as the page does. */
export const manifestOf = (page, namespace, name) =>
  page.evaluate(
    async ([namespace, name]) =>
      (await fetch(`/ui/api/v1/namespaces/${namespace}/clusters/${name}/manifest`, { cache: 'no-store' })).text(),
    [namespace, name],
  );

/** Replaces the text of the editor, as a user who pastes another one. */
export async function paste(page, text) {
  const editor = await see(page.getByRole('textbox', { name: 'Manifest' }));
  await until('the editor accepts input', async () =>
    (await editor.getAttribute('contenteditable')) === 'true' ? '' : 'it is read only',
  );
  await editor.click();
  await page.keyboard.press('ControlOrMeta+a');
  await editor.evaluate((element, text) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData('text/plain', text);
    element.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
  }, text);
}

/** Asks for the preview, and returns what the page says about each machine. */
export async function preview(page) {
  // The effect of an earlier preview can still be on the page.
  const answer = page.waitForResponse((r) => r.url().endsWith('/preview') && r.status() !== 429);
  await button(page, 'Preview').click();
  await answer;
  const effect = await see(page.getByRole('region', { name: 'Effect of the edit' }));
  await until('the preview is complete', async () =>
    (await button(page, 'Preview').getAttribute('data-loading')) ? 'the button is busy' : '',
  );
  return effect.evaluate((section) => ({
    summary: section.querySelector('.effect-summary').textContent,
    order: section.querySelector('.effect-order')?.textContent ?? '',
    machines: [...section.querySelectorAll('.effect-machines > li')].map((item) => ({
      name: item.querySelector('b').textContent,
      class: item.dataset.class,
      text: item.textContent,
    })),
  }));
}

/** Applies what was previewed, and waits for the answer. */
export async function apply(page, label = 'Apply') {
  const apply = button(page, label);
  truth(`${label} is enabled after the preview`, await apply.isEnabled());
  await apply.click();
  await see(page.getByText(/^Written: /));
}
