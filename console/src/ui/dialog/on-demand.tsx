/** Loads a dialog when it is first opened, so that no page waits for it. */
import { type ComponentType, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { systemClock } from '../../../../src/base/clock.ts';
import { createPart, usePart } from '../loading/lazy-part.tsx';
import { isDialogOpen, useOpenDialog } from './open-dialogs.ts';

/**
 * Mantine restores the focus itself, unless the dialog loaded after it was opened or its opener is
 * gone. Wait this long for Mantine first.
 */
const restoreFocusMs = 30;

/** Returns the focus to where it was before the dialog opened. */
function useFocusRestore(isOpen: boolean): void {
  const opener = useRef<Element | null>(null);
  useLayoutEffect(() => {
    if (isOpen) opener.current = document.activeElement;
  }, [isOpen]);
  useEffect(() => {
    if (isOpen || !opener.current) return;
    return systemClock.after(restoreFocusMs, () => {
      const active = document.activeElement;
      if (isDialogOpen() || (active !== document.body && !active?.closest('[role="dialog"]'))) return;
      const target = opener.current?.isConnected ? opener.current : document.getElementById('page');
      if (target instanceof HTMLElement) target.focus({ preventScroll: true });
    });
  }, [isOpen]);
}

export function loadOnDemand<Props extends object>(
  isOpen: (props: Props) => boolean,
  load: () => Promise<ComponentType<Props>>,
) {
  const lazyPart = createPart(load);
  return function OnDemand(props: Props) {
    const [wasOpened, setWasOpened] = useState(false);
    // Stay mounted after the first opening, so that closing is animated.
    if (!wasOpened && isOpen(props)) setWasOpened(true);
    useFocusRestore(isOpen(props));
    useOpenDialog(isOpen(props));
    const { Part } = usePart(lazyPart, wasOpened);
    return wasOpened && Part ? <Part {...props} /> : null;
  };
}
