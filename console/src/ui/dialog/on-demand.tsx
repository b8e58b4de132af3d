/** Loads a dialog when it is first opened, so that no page waits for it. */
import { type ComponentType, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { systemClock } from '../../../../src/base/clock.ts';
import { part, usePart } from '../loading/lazy-part.tsx';
import { isDialogOpen, useOpenDialog } from './open-dialogs.ts';

/**
 * Mantine restores the focus, but not if the dialog loaded after it was opened or its opener is
 * gone.
 */
const givenBackMs = 30;

/** Returns the focus to where it was before the dialog opened. */
function useFocusBack(isOpen: boolean): void {
  const opener = useRef<Element | null>(null);
  useLayoutEffect(() => {
    if (isOpen) opener.current = document.activeElement;
  }, [isOpen]);
  useEffect(() => {
    if (isOpen || !opener.current) return;
    return systemClock.after(givenBackMs, () => {
      const active = document.activeElement;
      if (isDialogOpen() || (active !== document.body && !active?.closest('[role="dialog"]'))) return;
      const back = opener.current?.isConnected ? opener.current : document.getElementById('page');
      if (back instanceof HTMLElement) back.focus({ preventScroll: true });
    });
  }, [isOpen]);
}

export function onDemand<Props extends object>(
  isOpen: (props: Props) => boolean,
  load: () => Promise<ComponentType<Props>>,
) {
  const its = part(load);
  return function OnDemand(props: Props) {
    const [wanted, setWanted] = useState(false);
    // Stays mounted after the first opening, so that it can animate its close.
    if (!wanted && isOpen(props)) setWanted(true);
    useFocusBack(isOpen(props));
    useOpenDialog(isOpen(props));
    const { Part } = usePart(its, wanted);
    return wanted && Part ? <Part {...props} /> : null;
  };
}
