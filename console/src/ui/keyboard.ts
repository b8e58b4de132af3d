/** Keys that work everywhere: `/` to search, `g` then a letter to go (`g i` to any id), `?` for help. Typing in a field is left alone. */
import { useEffect, useRef } from 'react';
import { isDialogOpen } from './dialog/open-dialogs.ts';

/** How long `g` waits for its letter. */
const chordMs = 1500;

/** A page marks its search field with this attribute; `/` finds it. */
export const searchMark = { 'data-search': true } as const;

/** The frame marks its own box, which takes any id, with this one. */
export const findMark = { 'data-find': true } as const;

/** A choice among few is made by clicking or by arrows; letters mean nothing to it. */
const isChoice = (target: HTMLElement): boolean =>
  target instanceof HTMLInputElement && ['radio', 'checkbox', 'button'].includes(target.type);

/** A field of a dialog that was closed is on its way out, and takes nothing any more. */
const isLeaving = (target: HTMLElement): boolean => !isDialogOpen() && target.closest('[role="dialog"]') !== null;

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  !isChoice(target) &&
  !isLeaving(target) &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/**
 * Which letter was pressed in time after `g`, if one was. By the time of the events themselves: the server's time, which
 * everything else here goes by, may be learned anew between two keys.
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
  /** The page has no search field of its own. */
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
        // The letter must not be typed into the field that it leads to.
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

/** False where it is out of sight, as on a phone. */
export const focusFind = (): boolean => focusField('input[data-find]');
