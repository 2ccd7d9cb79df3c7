class Cell:
    def set_train(self, training):
        self.training = training

    def __call__(self, *tensors):
        return self.construct(*tensors)
