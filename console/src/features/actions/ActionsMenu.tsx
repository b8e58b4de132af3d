/**
 * The menu of actions that the server offers: available ones, drastic ones, and unavailable ones
 * with the reason.
 */

import { Button, Menu } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Offer } from '../../../../src/lifecycle/actions/action-table.ts';
import { IconAlertTriangle, IconChevronDown } from '../../ui/icons.generated.ts';
import { toSentence } from '../../ui/text.ts';
import styles from './ActionsMenu.module.css';
import { actionLabel, groupOffers } from './words.ts';

interface Props<Name extends string> {
  offers: readonly Offer<Name>[];
  onChoose: (offer: Offer<Name>) => void;
  labelOf?: (action: Name) => string;
}

export function ActionsMenu<Name extends string>({ offers, onChoose, labelOf = actionLabel }: Props<Name>) {
  const { available, drastic, unavailable } = groupOffers(offers);
  return (
    <Menu
      position="bottom-end"
      shadow="md"
      width="min(24rem, calc(100vw - 2rem))"
      // Render inside the page's landmarks, and let only the items take the focus.
      withinPortal={false}
      withInitialFocusPlaceholder={false}
      classNames={{ dropdown: styles.dropdown, item: styles.item }}
    >
      <Menu.Target>
        <Button variant="default" rightSection={<IconChevronDown size={15} aria-hidden />}>
          Actions
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <OfferGroup name="Available now" offers={available}>
          {(offer) => (
            <Menu.Item key={offer.action} onClick={() => onChoose(offer)}>
              <OfferText label={labelOf(offer.action)} detail={offer.does} />
            </Menu.Item>
          )}
        </OfferGroup>
        <OfferGroup name="With care" offers={drastic}>
          {(offer) => (
            <Menu.Item
              key={offer.action}
              data-drastic
              leftSection={<IconAlertTriangle size={15} aria-hidden />}
              onClick={() => onChoose(offer)}
            >
              <OfferText label={labelOf(offer.action)} detail={offer.does} />
            </Menu.Item>
          )}
        </OfferGroup>
        <OfferGroup name="Not available now" offers={unavailable}>
          {/* Not `disabled`: the keyboard must reach unavailable actions, so that their reason is read. */}
          {(offer) => (
            <Menu.Item key={offer.action} aria-disabled closeMenuOnClick={false} title={toSentence(offer.does)}>
              <OfferText label={labelOf(offer.action)} detail={offer.why_not ?? ''} />
            </Menu.Item>
          )}
        </OfferGroup>
      </Menu.Dropdown>
    </Menu>
  );
}

interface OfferGroupProps<Name extends string> {
  name: string;
  offers: Offer<Name>[];
  children: (offer: Offer<Name>) => ReactNode;
}

function OfferGroup<Name extends string>({ name, offers, children }: OfferGroupProps<Name>) {
  if (offers.length === 0) return null;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a menu may not contain a fieldset.
    <div role="group" aria-label={name} className={styles.group}>
      <Menu.Label aria-hidden>{name}</Menu.Label>
      {offers.map(children)}
    </div>
  );
}

const OfferText = ({ label, detail }: { label: string; detail: string }) => (
  <>
    <span className={styles.label}>{label}</span>
    <span className={styles.says}>{toSentence(detail)}</span>
  </>
);
