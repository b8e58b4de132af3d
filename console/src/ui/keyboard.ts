/**
 * Global keys: `/` searches, `g` and a letter opens a page (`g i` finds any id), `?` shows help.
 * They are ignored while you type.
 */
import { useEffect, useRef } from 'react';
import { isDialogOpen } from './dialog/open-dialogs.ts';

/** How long `g` waits for its letter. */
const chordMs = 1500;

/** Marks the search field of a page for `/`. */
export const searchMark = { 'data-search': true } as const;

/** Marks the box in the navigation that takes any id. */
export const findMark = { 'data-find': true } as const;

/** Radio buttons and checkboxes take no text, so global keys work in them. */
const isChoice = (target: HTMLElement): boolean =>
  target instanceof HTMLInputElement && ['radio', 'checkbox', 'button'].includes(target.type);

/** A field of a dialog that is closing takes no text any more. */
const isLeaving = (target: HTMLElement): boolean => !isDialogOpen() && target.closest('[role="dialog"]') !== null;

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  !isChoice(target) &&
  !isLeaving(target) &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/**
 * Returns the letter pressed in time after `g`. `atMs` is the time of the key event: the server's
 * time, which the console uses elsewhere, may be corrected between two keys.
 */
export function createChordReader(): (key: string, atMs: number) => { go: string } | 'begun' | null {
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
  /** Called for `/` if the page has no search field. */
  onSearchElsewhere: () => void;
}

export function useKeyboard(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const chord = createChordReader();
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (isDialogOpen()) return;
      const read = chord(event.key, event.timeStamp);
      if (read === 'begun') return;
      if (read) {
        // Keep the letter out of the field that gets the focus.
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

/** Returns false if the field is hidden, as on a phone. */
export const focusFind = (): boolean => focusField('input[data-find]');
