/** Dialogs are loaded when they are first opened: no page should wait for what most visits never need. */
import { type ComponentType, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { systemClock } from '../../../../src/base/clock.ts';
import { part, usePart } from '../loading/lazy-part.tsx';
import { isDialogOpen, useOpenDialog } from './open-dialogs.ts';

/** The dialog gives the focus back by itself, but not when it came only after it was opened, nor to what is gone. */
const givenBackMs = 30;

/** Whoever closes a dialog goes on where they were, and never from the top of the document. */
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
    // Stays mounted once it was open, so that it can close in peace.
    if (!wanted && isOpen(props)) setWanted(true);
    useFocusBack(isOpen(props));
    useOpenDialog(isOpen(props));
    const { Part } = usePart(its, wanted);
    return wanted && Part ? <Part {...props} /> : null;
  };
}
