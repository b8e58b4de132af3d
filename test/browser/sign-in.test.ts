/** Tests sign-in, sign-out, sessions and tokens. The page's scripts cannot read the token. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { openBrowser, openPage, signIn } from './support/console.ts';

let server: TestServer;
let browser: Browser;
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer(), openBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

it('says where the first token is, and refuses an unknown token with advice', async () => {
  const { page, pageErrors } = await openPage(browser);
  await page.goto(server.url);
  await page.getByText('admin.token').first().waitFor();
  await page.getByLabel('Token', { exact: true }).fill('not-a-token-of-this-server');
  await page.getByRole('button', { name: 'Sign in' }).click();
  const alert = page.getByRole('alert');
  await alert.getByText('Unknown token').waitFor();
  expect(await alert.innerText()).toMatch(/What to do:.*token/s);
  expect(await alert.getByRole('button', { name: /copy [0-9a-f]{32}/ }).count()).toBe(1);
  expect(pageErrors).toEqual([]);
  await page.context().close();
});

it('opens the requested page after sign-in, keeps the session over a reload, and ends it on sign-out', async () => {
  const { page, context, pageErrors } = await openPage(browser);
  await signIn(page, server, '/operations?status=failed');
  await page.getByRole('heading', { name: 'Operations' }).waitFor();
  expect(new URL(page.url()).search).toBe('?status=failed');
  expect(await page.getByRole('button', { name: /^failed/ }).getAttribute('aria-pressed')).toBe('true');

  expect(await page.evaluate('document.cookie')).toBe('');
  expect(await page.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage })')).not.toContain(server.token);
  const [cookie] = await context.cookies();
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' });

  await page.reload();
  await page.getByRole('heading', { name: 'Operations' }).waitFor();

  await page.getByRole('button', { name: /admin/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  expect(await context.cookies()).toEqual([]);
  const copiedCookie = { headers: { cookie: `${cookie?.name}=${cookie?.value}` } };
  expect((await fetch(`${server.url}/v1/session`, copiedCookie)).status).toBe(401);
  await page.goto(`${server.url}/fleet`);
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  expect(pageErrors).toEqual([]);
  await context.close();
});

it('does not redirect to another site after sign-in', async () => {
  const { page, context } = await openPage(browser);
  await signIn(page, server, '/sign-in?next=//elsewhere.invalid/fleet');
  expect(new URL(page.url()).origin).toBe(server.url);
  await context.close();
});

it('shows the sign-in page without a reload when the token is revoked', async () => {
  const { page, context } = await openPage(browser);
  const viewer = await server.client.call('token-create', { body: { name: 'guest', role: 'viewer' } });
  await signIn(page, { ...server, token: viewer.token ?? '' }, '/fleet');
  await page.getByText('No machines yet').waitFor();
  // A viewer sees no actions.
  expect(await page.getByRole('button', { name: 'Allocate' }).count()).toBe(0);
  await server.client.call('token-delete', { params: { id: viewer.token_id } });
  const signInButton = page.getByRole('button', { name: 'Sign in' });
  // The console may show the sign-in page before the click. Then there is no link to click.
  const click = page.getByRole('link', { name: 'Allocations' }).click();
  await Promise.race([click.catch(() => {}), signInButton.waitFor()]);
  await signInButton.waitFor();
  expect(['/fleet', '/allocations']).toContain(new URL(page.url()).searchParams.get('next'));
  await context.close();
});

it('lists sessions, and signs out another browser', async () => {
  const viewer = await server.client.call('token-create', { body: { name: 'lost-laptop', role: 'viewer' } });
  const laptop = await openPage(browser);
  await signIn(laptop.page, { ...server, token: viewer.token ?? '' }, '/settings');
  await laptop.page.getByRole('row', { name: /lost-laptop.*this browser/ }).waitFor();
  // A viewer does not see the sessions of others.
  expect(await laptop.page.getByRole('row', { name: /^admin/ }).count()).toBe(0);

  const { page, context, pageErrors } = await openPage(browser);
  await signIn(page, server, '/settings');
  await page.getByRole('button', { name: 'Revoke session of lost-laptop' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await laptop.page.getByRole('button', { name: 'Sign in' }).waitFor();
  await page.getByRole('button', { name: 'Revoke session of lost-laptop' }).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Revoke session of admin (this browser)' }).waitFor();
  expect(pageErrors).toEqual([]);
  await Promise.all([context.close(), laptop.context.close()]);
});

it('creates a token that is shown once, lists its denied request in the audit, and revokes it', async () => {
  const { page, context, pageErrors } = await openPage(browser);
  await signIn(page, server, '/settings');
  await page.getByRole('button', { name: 'Create token' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('textbox', { name: 'Name' }).fill('night-shift');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await dialog.getByText('It is not shown again.').waitFor();
  const token = await dialog.locator('code').innerText();
  await dialog.getByRole('button', { name: 'Finish' }).click();
  await page
    .getByRole('row', { name: /^night-shift/ })
    .getByText('viewer')
    .waitFor();
  expect(await page.content()).not.toContain(token);

  const refusedCall = server.as(token).call('pool-delete', { params: { pool: 'local' } });
  await expect(refusedCall).rejects.toThrow();
  await page.getByRole('link', { name: 'Audit' }).click();
  await page.getByText('Denied', { exact: true }).click();
  await page.getByRole('searchbox', { name: 'Who' }).fill('night-shift');
  await page.waitForURL(/kind=request.denied&actor=night-shift|actor=night-shift&kind=request.denied/);
  await page
    .getByRole('row', { name: /night-shift.*pool-delete/ })
    .first()
    .waitFor();

  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('button', { name: 'Revoke night-shift' }).click();
  expect(await dialog.getByLabel('Reason').count()).toBe(0);
  await dialog.getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('row', { name: /^night-shift/ }).waitFor({ state: 'detached' });
  expect(pageErrors).toEqual([]);
  await context.close();
});
