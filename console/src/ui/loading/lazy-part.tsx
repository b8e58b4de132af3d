/**
 * Loads parts of the console on demand. A part that fails to load is retried in place as soon as
 * the server answers. The page around it stays usable.
 */
import { type ComponentType, type ReactNode, useEffect, useState } from 'react';
import { systemClock } from '../../../../src/base/clock.ts';
import { PartNotLoaded } from '../../api/failure.ts';
import { waitForServer } from '../../api/server-back.ts';
import { FailedPage } from './FailedPage.tsx';
import { LoadingPage } from './LoadingPage.tsx';

export interface Part<Props> {
  loaded(): ComponentType<Props> | undefined;
  load(): Promise<void>;
}

export function createPart<Props>(fetch: () => Promise<ComponentType<Props>>): Part<Props> {
  let component: ComponentType<Props> | undefined;
  return {
    loaded: () => component,
    load: async () => {
      try {
        component ??= await fetch();
      } catch (error) {
        throw new PartNotLoaded(error);
      }
    },
  };
}

/**
 * After an update of the server, the chunks of this page no longer exist. Only a reload loads the
 * new ones.
 */
const reloadedKey = 'slipway_reloaded_for';
function reloadOnce(error: unknown): boolean {
  const reason = String(error);
  if (sessionStorage.getItem(reloadedKey) === reason) return false;
  sessionStorage.setItem(reloadedKey, reason);
  window.location.reload();
  return true;
}

const retryMs = 2000;

/** Returns the part after it has loaded, and the error of the last failed load. */
export function usePart<Props>(
  lazyPart: Part<Props>,
  isWanted: boolean,
): { Part: ComponentType<Props> | undefined; error: unknown } {
  const [error, setError] = useState<unknown>(null);
  const [, rerender] = useState(0);
  useEffect(() => {
    if (!isWanted || lazyPart.loaded()) return;
    const unmounted = new AbortController();
    const attempt = async (serverAnswers: boolean): Promise<void> => {
      try {
        await lazyPart.load();
        if (!unmounted.signal.aborted) rerender((times) => times + 1);
      } catch (failure) {
        if (unmounted.signal.aborted || (serverAnswers && reloadOnce(failure))) return;
        setError(failure);
        await waitForServer(systemClock, retryMs, unmounted.signal);
        if (!unmounted.signal.aborted) await attempt(true);
      }
    };
    void attempt(false);
    return () => unmounted.abort();
  }, [lazyPart, isWanted]);
  return { Part: lazyPart.loaded(), error };
}

/**
 * Creates a page that the router can preload. If loading fails, the error is shown in place of the
 * page. The type omits the props of the page, because pages use the router's types and that would
 * be a cycle.
 */
export function createLazyPage(
  fetch: () => Promise<object>,
  name: string,
): (() => ReactNode) & { preload: () => Promise<void> } {
  const pagePart = createPart(async () => {
    const component = ((await fetch()) as Record<string, ComponentType | undefined>)[name];
    if (!component) throw new Error(`there is no page called ${name}`);
    return component;
  });
  function Page() {
    const { Part, error } = usePart(pagePart, true);
    if (Part) return <Part />;
    return error ? <FailedPage error={error} /> : <LoadingPage />;
  }
  return Object.assign(Page, { preload: () => pagePart.load().catch(() => {}) });
}
