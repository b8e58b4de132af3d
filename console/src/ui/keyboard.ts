/**
 * Global keys: `/` searches, `g` and a letter goes to a place (`g i` to any id), `?` shows help.
 * Ignored while typing.
 */
import { useEffect, useRef } from 'react';
import { isDialogOpen } from './dialog/open-dialogs.ts';

/** How long `g` waits for its letter. */
const chordMs = 1500;

/** Marks the search field of a page for `/`. */
export const searchMark = { 'data-search': true } as const;

/** Marks the box in the navigation that takes any id. */
export const findMark = { 'data-find': true } as const;

/** Radio buttons and checkboxes take no letters. */
const isChoice = (target: HTMLElement): boolean =>
  target instanceof HTMLInputElement && ['radio', 'checkbox', 'button'].includes(target.type);

/** A field of a closing dialog takes no keys. */
const isLeaving = (target: HTMLElement): boolean => !isDialogOpen() && target.closest('[role="dialog"]') !== null;

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  !isChoice(target) &&
  !isLeaving(target) &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/**
 * Returns the letter pressed in time after `g`. It uses the time of the events: the server's time,
 * used elsewhere, may be corrected between two keys.
 */
export function chordReader(): (key: string, atMs: number) => { go: string } | 'begun' | null {
  let goUntilMs = Number.NEGATIVE_INFINITY;
  return (key, atMs) => {
    const isInTime = atMs < goUntilMs;
    goUntilMs = !isInTime && key === 'g' ? atMs + chordMs : Number.NEGATIVE_INFINITY;
    if (isInTime) return { go: key };
    return key === 'g' ? 'begun' : null;
  };
}

interface Keys {
  onGo: (letter: string) => void;
  onHelp: () => void;
  /** The page has no search field. */
  onSearchElsewhere: () => void;
}

export function useKeyboard(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const chord = chordReader();
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (isDialogOpen()) return;
      const read = chord(event.key, event.timeStamp);
      if (read === 'begun') return;
      if (read) {
        // Keeps the letter out of the field that it focuses.
        event.preventDefault();
        latest.current.onGo(read.go);
      } else if (event.key === '?') latest.current.onHelp();
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

/** False if it is hidden, as on a phone. */
export const focusFind = (): boolean => focusField('input[data-find]');
