/** Dialogs are loaded when they are first opened: no page should wait for what most visits never need. */
import { type ComponentType, lazy, Suspense, useState } from 'react';

function onDemand<Props extends object>(isOpen: (props: Props) => boolean, load: () => Promise<ComponentType<Props>>) {
  const Loaded = lazy(async () => ({ default: await load() }));
  return function OnDemand(props: Props) {
    const [wanted, setWanted] = useState(false);
    // Stays mounted once it was open, so that it can close in peace.
    if (!wanted && isOpen(props)) setWanted(true);
    return wanted ? (
      <Suspense>
        <Loaded {...props} />
      </Suspense>
    ) : null;
  };
}

export const AllocateDialog = onDemand(
  ({ opened }) => opened,
  async () => (await import('./AllocateDialog.tsx')).AllocateDialog,
);

export const ActionDialog = onDemand(
  ({ action }) => action !== null,
  async () => (await import('./ActionDialog.tsx')).ActionDialog,
);

export const RecoverDialog = onDemand(
  ({ opened }) => opened,
  async () => (await import('./RecoverDialog.tsx')).RecoverDialog,
);

export const TokenDialog = onDemand(
  ({ opened }) => opened,
  async () => (await import('./TokenDialog.tsx')).TokenDialog,
);

export const KeyboardHelp = onDemand(
  ({ opened }) => opened,
  async () => (await import('./KeyboardHelp.tsx')).KeyboardHelp,
);
