/** Names of values are sorted into charts as the notebook's pictures are. */
import { groupNames, isClock, isValidation, quantityOf } from '../metrics';

describe('groupNames', () => {
  it('puts losses first, then accuracies, then the rest', () => {
    const groups = groupNames(['lr', 'main/accuracy', 'aux', 'main/loss']);

    expect(groups.map(group => group.quantity)).toEqual([
      ...['loss', 'accuracy', 'aux', 'lr']
    ]);
  });

  it('puts training before validation on the same axes', () => {
    expect(groupNames(['validation/main/loss', 'main/loss'])).toEqual([
      { quantity: 'loss', names: ['main/loss', 'validation/main/loss'] }
    ]);
  });

  it('joins the names of other libraries', () => {
    expect(groupNames(['val_loss', 'train_loss', 'eval_acc'])).toEqual([
      { quantity: 'loss', names: ['train_loss', 'val_loss'] },
      { quantity: 'acc', names: ['eval_acc'] }
    ]);
  });

  it('leaves out clocks and step times', () => {
    const names = ['epoch', 'elapsed_time', 'step/compute', 'a/iteration'];

    expect(groupNames(names)).toEqual([]);
  });
});

test.each([
  ['validation/main/loss', 'loss', true],
  ['main/val_top5', 'top5', true],
  ['main/values', 'values', false],
  ['train_loss', 'loss', false],
  ['loss_scale', 'loss_scale', false]
])('%s measures %s, on validation data: %s', (name, quantity, validation) => {
  expect(quantityOf(name)).toBe(quantity);
  expect(isValidation(name)).toBe(validation);
});

test.each([
  ['epoch', true],
  ['main/Elapsed_Time', true],
  ['epochs', false]
])('%s is a clock: %s', (name, clock) => {
  expect(isClock(name)).toBe(clock);
});
