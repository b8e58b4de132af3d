/**
 * Parts of the console that load on demand. If one fails, it is retried in place as soon as the
 * server answers; the page around it stays.
 */
import { type ComponentType, type ReactNode, useEffect, useState } from 'react';
import { systemClock } from '../../../../src/base/clock.ts';
import { PartNotLoaded } from '../../api/failure.ts';
import { untilServerAnswers } from '../../api/server-back.ts';
import { FailedPage } from './FailedPage.tsx';
import { LoadingPage } from './LoadingPage.tsx';

export interface Part<Props> {
  now(): ComponentType<Props> | undefined;
  load(): Promise<void>;
}

export function part<Props>(fetch: () => Promise<ComponentType<Props>>): Part<Props> {
  let known: ComponentType<Props> | undefined;
  return {
    now: () => known,
    load: async () => {
      try {
        known ??= await fetch();
      } catch (error) {
        throw new PartNotLoaded(error);
      }
    },
  };
}

/**
 * After an update of the server the chunks of this page are gone; only a reload finds the new ones.
 */
const reloadedKey = 'slipway_reloaded_for';
function reloadOnce(error: unknown): boolean {
  const reason = String(error);
  if (sessionStorage.getItem(reloadedKey) === reason) return false;
  sessionStorage.setItem(reloadedKey, reason);
  window.location.reload();
  return true;
}

const againMs = 2000;

/** The part once it is loaded, and the error while it is not. */
export function usePart<Props>(
  of: Part<Props>,
  wanted: boolean,
): { Part: ComponentType<Props> | undefined; error: unknown } {
  const [error, setError] = useState<unknown>(null);
  const [, arrived] = useState(0);
  useEffect(() => {
    if (!wanted || of.now()) return;
    const left = new AbortController();
    const attempt = async (serverAnswers: boolean): Promise<void> => {
      try {
        await of.load();
        if (!left.signal.aborted) arrived((times) => times + 1);
      } catch (failure) {
        if (left.signal.aborted || (serverAnswers && reloadOnce(failure))) return;
        setError(failure);
        await untilServerAnswers(systemClock, againMs, left.signal);
        if (!left.signal.aborted) await attempt(true);
      }
    };
    void attempt(false);
    return () => left.abort();
  }, [of, wanted]);
  return { Part: of.now(), error };
}

/**
 * A page for the router, which preloads it; if that fails, the error shows in its place. Its type
 * omits the page: pages use the router's types, which would be a cycle.
 */
export function page(fetch: () => Promise<object>, name: string): (() => ReactNode) & { preload: () => Promise<void> } {
  const its = part(async () => {
    const found = ((await fetch()) as Record<string, ComponentType | undefined>)[name];
    if (!found) throw new Error(`there is no page called ${name}`);
    return found;
  });
  function Page() {
    const { Part, error } = usePart(its, true);
    if (Part) return <Part />;
    return error ? <FailedPage error={error} /> : <LoadingPage />;
  }
  return Object.assign(Page, { preload: () => its.load().catch(() => {}) });
}
