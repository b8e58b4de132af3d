/** Keys that work everywhere: `/` to search, `g` then a letter to go (`g i` to any id), `?` for help. Typing in a field is left alone. */
import { useEffect, useRef } from 'react';
import { serverNowMs } from './live/clock.ts';

/** How long `g` waits for its letter. */
const chordMs = 1500;

/** A page marks its search field with this attribute; `/` finds it. */
export const searchMark = { 'data-search': true } as const;

/** The frame marks its own box, which takes any id, with this one. */
export const findMark = { 'data-find': true } as const;

/** A choice among few is made by clicking or by arrows; letters mean nothing to it. */
const isChoice = (target: HTMLElement): boolean =>
  target instanceof HTMLInputElement && ['radio', 'checkbox', 'button'].includes(target.type);

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  !isChoice(target) &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

interface Keys {
  onGo: (letter: string) => void;
  onHelp: () => void;
  /** The page has no search field of its own. */
  onSearchElsewhere: () => void;
}

export function useKeyboard(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    let goUntilMs = 0;
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector('[role="dialog"]')) return;
      const nowMs = serverNowMs();
      if (nowMs < goUntilMs) {
        goUntilMs = 0;
        // The letter must not be typed into the field that it leads to.
        event.preventDefault();
        latest.current.onGo(event.key);
      } else if (event.key === 'g') goUntilMs = nowMs + chordMs;
      else if (event.key === '?') latest.current.onHelp();
      else if (event.key === '/') {
        event.preventDefault();
        if (!focusSearch()) latest.current.onSearchElsewhere();
      }
    };
    window.addEventListener('keydown', onKey);
    return () => window.removeEventListener('keydown', onKey);
  }, []);
}

function focusField(selector: string): boolean {
  const field = document.querySelector<HTMLInputElement>(selector);
  field?.focus();
  field?.select();
  return field !== null && document.activeElement === field;
}

export const focusSearch = (): boolean => focusField('input[data-search]');

/** False where it is out of sight, as on a phone. */
export const focusFind = (): boolean => focusField('input[data-find]');
